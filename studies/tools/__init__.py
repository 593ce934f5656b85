"""What several studies share, and the library does not need: data, targets with known answers, figures and tables.

A study's file imports it by this folder's name, ``from studies.tools import mnist``.
"""

"""Code that several studies use, and the library does not: data, targets with known answers, figures and tables.

A study imports a module of it by ``from studies.tools import mnist``.
"""

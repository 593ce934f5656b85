"""Audits: repeat steps of a finished chain with all data and with many decisions of its test; choose their number."""

"""Audits: steps of a finished chain, looked at with all data and by many decisions of its test; how many are made."""

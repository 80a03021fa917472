"""The protocol itself: every type, code, limit and rule, without any input or output.

===============  =======================================================================
``contract``     names on the wire, codes, limits, times
``types``        what travels, as pydantic models
``json_text``    JSON text, the same bytes as from JavaScript
``envelope``     keys, ids and payloads to the texts that travel, and back
``settings``     who may change which setting, and what is then in force
``states``       how far a client is from talking to its agent, as one table
``ordering``     messages in the order in which they were sent
``schema``       all types as one JSON Schema document (``protocol.schema.json``)
===============  =======================================================================
"""

"""The protocol itself: every type, code, limit and rule, without any input or output.

=================  =====================================================================
``contract``       names on the wire, codes, limits, times
``scalars``        the single values that types are made of
``types``          what travels in a room, as pydantic models
``json_text``      JSON text, the same bytes as from JavaScript
``envelope``       keys, ids and payloads to the texts that travel, and back
``settings``       who may change which setting, and what is then in force
``states``         how far a client is from talking to its agent, as one table
``ordering``       messages in the order in which they were sent
``host_requests``  what a host asks of a runner
``host_types``     what a runner answers
``host_errors``    its refusals, and their HTTP status
``ready_line``     the lifecycle lines on a runner's stdout
``records``        the records of a runner's event stream
``kept``           how much of a payload is on record
``ndjson``         the stream's bytes to records
``cursor``         following the stream over broken connections, as one table
``seen``           which records were processed, in bounded memory
``experiments``    which variant of an experiment a call gets
``schema``         all types as one JSON Schema document (``protocol.schema.json``)
=================  =====================================================================
"""

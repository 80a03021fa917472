"""A CrabTalk daemon inside the test process, which behaves as the real one does, quirks included.

=============  ==========================================================================
``daemon``     FakeDaemon: what it is given, and its life
``listener``   a thread that listens at a Unix socket and at TCP, frames in and out
``dispatch``   each request and its answers
``runs``       an agent's run against a scripted model
``shell``      the bash that its agents have
``state``      sessions, agents, jobs, questions, subscriptions
``schedules``  when jobs fire
``replay``     ReplayedDaemon: says what a recorded daemon said, byte for byte
=============  ==========================================================================
"""

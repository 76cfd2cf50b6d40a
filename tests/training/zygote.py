"""Starts job programs in processes of their own without waiting for imports: reads one command a line from standard
input, forks, and runs ``corecode.training.job`` in the child. Answers with the child's pid, and then its exit status.

A command is JSON: ``job`` (job file), ``log`` (file for what the job says), ``limit`` (largest file in bytes, or null).
"""

from __future__ import annotations

import json
import os
import resource
import sys

import corecode.execution
import corecode.generation.transformers
import corecode.models
import corecode.training.grpo
import corecode.training.job
import corecode.training.sft

for line in sys.stdin:
    command = json.loads(line)
    pid = os.fork()
    if pid == 0:
        log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if command["limit"]:
            resource.setrlimit(resource.RLIMIT_FSIZE, (command["limit"], command["limit"]))
        code = 70
        try:
            code = corecode.training.job.main([command["job"]])
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)

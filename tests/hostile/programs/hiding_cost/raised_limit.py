# does: Raises its own processor-time limit.
# limits: cpu_s=0.5 wall_s=4
# expect: verdict time_limit
import resource

for kind in (resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
    for value in ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), (resource.getrlimit(kind)[1],) * 2):
        try:
            resource.setrlimit(kind, value)
        except (OSError, ValueError):
            pass
while True:
    pass

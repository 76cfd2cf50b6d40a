# does: Kills its own process group, in which a careless judge would be as well.
# expect: verdict runtime_error
import os
import signal

os.killpg(os.getpgid(0), signal.SIGKILL)

# does: Ends with exit code 0 and no answer.
# expect: verdict wrong_answer
import os

os._exit(0)

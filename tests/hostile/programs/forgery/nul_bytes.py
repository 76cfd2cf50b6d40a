# does: Prints a NUL and invalid text after the right answer.
# answer: 5
# expect: verdict wrong_answer
import sys

sys.stdout.buffer.write(b"5\x00\xff\xfe\n")

# does: Prints the right answer and fails afterwards.
# stdin: 2 3
# answer: 5
# expect: verdict runtime_error
import sys

print(sum(map(int, input().split())))
sys.exit(1)

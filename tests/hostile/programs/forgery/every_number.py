# does: Prints every answer that could be right.
# stdin: 2 3
# answer: 5
# expect: verdict wrong_answer
print(*range(1000))

# does: Prints nan, for which every comparison is false, also "too far away".
# answer: 0.5
# expect: verdict wrong_answer
print("nan")

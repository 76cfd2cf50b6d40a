# does: Prints a real number in digits of another script, which float() takes.
# answer: 10.5
# expect: verdict wrong_answer
print("\uff11\uff10.\uff15")

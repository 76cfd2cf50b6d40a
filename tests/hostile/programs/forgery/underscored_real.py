# does: Prints a real number with an underscore and foreign digits, which float() takes.
# answer: 10.5
# expect: verdict wrong_answer
print("1_0.5")

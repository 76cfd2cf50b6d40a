# does: Prints the right answer first and floods afterwards, hoping that the rest is cut off.
# answer: 5
# limits: output_kb=64
# expect: verdict output_limit|wrong_answer
print("5\n" + "\n" * 200000 + "x" * 200000)

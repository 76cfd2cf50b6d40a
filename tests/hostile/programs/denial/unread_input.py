# does: Does not read an input of several megabytes, so that the judge may not wait for it.
# stdin_kb: 4000
# answer: done
# expect: verdict accepted
print("done")

# does: Leaves nested folders without any permission, and files that cannot be opened, to resist the cleaning.
# runs: 2
# answer: clean
# expect: verdict accepted
import os

left = [name for name in os.listdir("/tmp") if name.startswith("deep")]
path = "/tmp/deep"
for _ in range(40):
    try:
        os.mkdir(path)
    except OSError:
        break
    with open(path + "/file", "w") as file:
        file.write("mark")
    os.chmod(path + "/file", 0)
    path += "/deep"
path = "/tmp/deep"
folders = []
while os.path.isdir(path):
    folders.append(path)
    path += "/deep"
for folder in reversed(folders):
    os.chmod(folder, 0)
print("SURVIVED" if left else "clean", *left)

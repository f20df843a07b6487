# Asks for three IDs with the standard library of Python.
import json
import sys
import urllib.request

request = urllib.request.Request(
    f"http://{sys.argv[1]}/snowflake.v1.IDService/Next",
    data=json.dumps({"count": 3}).encode(),
    headers={"Content-Type": "application/json"},
)
with urllib.request.urlopen(request, timeout=30) as answer:
    print(*(int(id) for id in json.load(answer)["ids"]))

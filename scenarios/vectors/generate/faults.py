"""Makes harness/src/suite/libraries.toml: which shots of the suite fail in a receiver that does no more than ask a library.

    npm install ...                                        (as providers.mjs says, with svix and stripe@23.1.0)
    python3 faults.py PATH/TO/hookproof PATH/TO/scenarios/vectors/generate/providers.mjs >libraries.toml

Nothing runs this in a build. That of zoom is left out: it wants members in the body that the suite's deliveries lack.
"""

import base64
import json
import os
import subprocess
import sys

SECRET = "a-secret-of-twenty-bytes"
PRIVATE = "whsk_" + base64.b64encode(b"a-seed-of-an-ed25519-private-key").decode()
WHSEC = "whsec_" + base64.b64encode(SECRET.encode()).decode()
SECRETS = {"discord": PRIVATE, "plaid": PRIVATE, "sendgrid": PRIVATE, "standard-webhooks": WHSEC}
PROFILES = ["discord", "github", "hubspot", "line", "linear", "paddle", "plaid", "sendgrid", "shopify", "slack", "square"]
PROFILES += ["standard-webhooks", "stripe", "twilio"]


def report(hookproof, profile, url):
    command = [hookproof, "receiver", url, "--profile", profile, "--secret-env", "SECRET", "--json", "--strict"]
    command += ["--only", "sig,rotation,time", "--without", "retired"]
    secret = SECRETS.get(profile, SECRET)
    done = subprocess.run(command, stdout=subprocess.PIPE, env={**os.environ, "SECRET": secret}, check=False)
    return json.loads(done.stdout)


def shots(cases):
    """Those that the library decided wrongly. One that never looks at the age leaves all of time to its user."""
    failed = {case["id"] for case in cases if case["verdict"] == "fail"}
    failed -= {one for one in failed if one.startswith("time.") and "time.old" in failed}
    for case in cases:
        unmet = [shot["label"] for shot in case["exchanges"] if not shot["met"] and not shot["label"].startswith("the control")]
        if case["id"] in failed and unmet:
            yield case["id"], list(dict.fromkeys(unmet))


hookproof, script = map(os.path.abspath, sys.argv[1:])
for port, profile in enumerate(PROFILES, 9300):
    with subprocess.Popen(["node", script, "serve", profile, str(port)], stdout=subprocess.PIPE, text=True) as served:
        library = served.stdout.readline().strip()
        cases = report(hookproof, profile, f"http://127.0.0.1:{port}/hooks")["rows"]
        served.kill()
    assert cases[0]["id"] == "sig.valid" and cases[0]["verdict"] == "pass", library
    print(f'[[library]]\nname = "{library}"\nprofile = "{profile}"')
    print("".join(f"shots.{json.dumps(case)} = {json.dumps(labels, ensure_ascii=False)}\n" for case, labels in shots(cases)))

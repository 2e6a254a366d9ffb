"""Checks the files that other programs read: the action and the workflows, the recipe for GitLab, what Compose starts, and the chart
as it is rendered.

    packaging/check.py REPOSITORY

Needs check-jsonschema, kubernetes-validate and helm-python-sdk, which `.ci/run` installs where it may.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import kubernetes_validate
import yaml
from helm_python import Chart

KUBERNETES = "1.31"
SCENARIO = 'name = "first"\n[[traffic]]\nshape = "burst"\nevents = 1\n[[subscriber]]\nname = "one"\n'
# Each a set of values, and the kinds of what is rendered from it.
VALUES = [
    ({}, ["Service", "StatefulSet"]),
    ({"sender": {"storage": {"className": "fast"}, "arguments": ["--log", "debug"]}}, ["Service", "StatefulSet"]),
    ({"harness": {"enabled": True, "scenarios": {"first": SCENARIO}}}, ["ConfigMap", "Job", "Service", "StatefulSet"]),
    (
        {"harness": {"enabled": True, "schedule": "0 3 * * *", "scenarios": {"first": SCENARIO, "second": SCENARIO}}},
        ["ConfigMap", "CronJob", "CronJob", "Service", "StatefulSet"],
    ),
]


def against(schema, files):
    """Checks files by a schema that check-jsonschema has itself."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, files)]
    subprocess.run(command, check=True)


def chart(folder):
    """Renders the chart with each set of values, and checks what comes out strictly."""
    with Chart.load(folder) as loaded:
        for values, kinds in VALUES:
            rendered = loaded.render(values=values, name="shop", namespace="webhooks")
            texts = rendered.values() if isinstance(rendered, dict) else [rendered]
            documents = [one for text in texts for one in yaml.safe_load_all(text) if one]
            for document in documents:
                kubernetes_validate.validate(document, KUBERNETES, strict=True)
                confined(document)
            found = sorted(document["kind"] for document in documents)
            assert found == kinds, f"{values}: rendered {found}, expected {kinds}"
            for document in documents:
                if document["kind"] == "ConfigMap":
                    assert document["data"]["first.toml"] == SCENARIO, document["data"]
    print(f"ok -- the chart, with {len(VALUES)} sets of values")


def pinned(files):
    """Sees to it that whose code runs in a workflow is named by a commit, which nobody can move, and by its version for people."""
    for file in files:
        for number, line in enumerate(file.read_text().splitlines(), 1):
            found = re.match(r"\s*(?:-\s+)?uses:\s*(\S+)(.*)", line)
            if not found or found.group(1).startswith("./") or found.group(1).startswith("OWNER/hookproof/"):
                continue
            commit = re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", found.group(1))
            version = re.match(r"\s+# v\d+\.\d+\.\d+$", found.group(2))
            assert commit and version, f"{file}:{number}: {line.strip()}: expected OWNER/NAME@COMMIT # vVERSION"
    print("ok -- actions are pinned by commits")


def confined(document):
    """Sees to it that a pod runs as nobody in particular, with no right and no disk but its own."""
    pod = document.get("spec", {}).get("jobTemplate", document).get("spec", {}).get("template", {}).get("spec")
    if not pod:
        return
    assert pod["securityContext"]["runAsNonRoot"] is True and pod["securityContext"]["runAsUser"] == 65532, pod
    for container in pod["containers"]:
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"] is True and rights["capabilities"] == {"drop": ["ALL"]}, container


def main(root):
    """Checks them all."""
    against("vendor.github-actions", root.glob(".github/actions/*/action.yml"))
    written = root / "harness/src/cli/init/workflow.yml"
    against("vendor.github-workflows", [*root.glob(".github/workflows/*.yml"), written])
    pinned([*root.glob(".github/actions/*/action.yml"), *root.glob(".github/workflows/*.yml"), written])
    against("vendor.compose-spec", sorted(root.glob("packaging/compose/*.yaml")))
    recipe = re.search(r"```yaml\n(.*?)```", (root / "docs/ci.md").read_text(), re.DOTALL).group(1)
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        file.write(recipe)
        file.flush()
        against("vendor.gitlab-ci", [file.name])
    chart(str(root / "packaging/helm/hookproof"))


main(Path(sys.argv[1]))

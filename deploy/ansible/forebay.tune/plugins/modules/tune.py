#!/usr/bin/python
"""Runs `forebay tune` on a host, and gives its answer as data."""

DOCUMENTATION = r"""
module: tune
short_description: Settings of a host with proof and undo (forebay tune)
description:
  - Runs C(forebay tune) with C(--format json).
  - In check mode nothing is written; C(apply) becomes C(plan --check), and what would take back or keep something is skipped.
options:
  arguments:
    description: The command and its arguments, as C([apply, /etc/forebay/plan.toml]).
    type: list
    elements: str
    required: true
  program:
    description: The binary.
    type: str
    default: forebay
  fails:
    description:
      - Whether an exit code other than 0 fails the task. Else it is in C(code).
      - 6 is no failure, it comes into effect when the host starts again.
    type: bool
    default: true
"""

EXAMPLES = r"""
- forebay.tune.tune:
    arguments: [apply, /etc/forebay/plan.toml, --confirm-within, 10m]
  register: applied
- forebay.tune.tune:
    arguments: [confirm, "{{ applied.answer.transaction }}"]
"""

RETURN = r"""
code:
  description: The exit code.
  type: int
  returned: always
answer:
  description: What it printed, as data; none where that is no JSON.
  type: raw
  returned: always
out:
  description: What it printed, as text.
  type: str
  returned: always
"""

import json

from ansible.module_utils.basic import AnsibleModule

# Done, and done but for a start of the host.
DONE = (0, 6)
LOOKING = ("inspect", "plan", "status", "verify", "export", "record", "report")
# Exit codes after which the host may have been written to.
WRITING = ("apply", "undo", "confirm", "boot", "experiment")


def command_of(arguments):
    """The command among the arguments."""
    return next((word for word in arguments if word in LOOKING + WRITING), "")


def main():
    module = AnsibleModule(
        argument_spec={
            "arguments": {"type": "list", "elements": "str", "required": True},
            "program": {"type": "str", "default": "forebay"},
            "fails": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    arguments = list(module.params["arguments"])
    command = command_of(arguments)
    if module.check_mode and command in WRITING:
        if command != "apply":
            module.exit_json(changed=True, code=0, answer=None, out="", skipped=True)
        place = arguments.index("apply")
        arguments = arguments[:place] + ["plan", "--check", arguments[place + 1]]
    if "--format" not in arguments:
        arguments = ["--format", "json"] + arguments
    code, out, err = module.run_command([module.params["program"], "tune"] + arguments)
    try:
        answer = json.loads(out)
    except ValueError:
        answer = None
    result = {"code": code, "out": out, "answer": answer, "stderr": err, "changed": changed(command, code, answer)}
    if code not in DONE and module.params["fails"]:
        module.fail_json(msg=f"forebay tune {command}: exit code {code}: {err.strip() or out.strip()}", **result)
    module.exit_json(**result)


def changed(command, code, answer):
    """Whether something of the host is another than before."""
    if command == "apply" and code in DONE:
        return any(one.get("result") != "already" for one in (answer or {}).get("applied", []))
    if command == "undo":
        return any(one.get("result") == "restored" for one in answer or [])
    return command in ("boot", "confirm") and code == 0


if __name__ == "__main__":
    main()

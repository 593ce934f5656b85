"""Several hosts on one machine: network namespaces joined by a bridge, whose cables can be pulled.

A program that uses it is started below ``ISOLATED``, with a network, mounts and processes of its own. When it ends,
however it ends, the system takes down all that it has started and made: processes, namespaces, mounts. Nothing of the
machine's own network is touched, and nothing leaves it. This needs root.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ISOLATED = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
# 1 Mbit/s each way, a packet at a time; 0.1 s of it may wait, and what comes on top is dropped.
SLOW = ["tbf", "rate", "1mbit", "burst", "2kb", "latency", "100ms"]


def what_is_missing() -> str:
    """Return why such hosts cannot be made here, or an empty text."""
    if not sys.platform.startswith("linux"):
        return "network namespaces are of Linux"
    if os.geteuid() != 0:
        return "network namespaces need root: run the session as root, in a container of its own if you like"
    absent = [name for name in ("unshare", "ip", "tc") if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} of util-linux and iproute2 is not installed"
    tried = subprocess.run([*ISOLATED, "true"], capture_output=True, text=True, check=False)
    return f"this machine makes no network namespaces: {tried.stderr.strip()}" if tried.returncode else ""


def _do(*command: str) -> None:
    subprocess.run(command, check=True)


class Network:
    """Hosts by name, each with a cable to the bridge; the n-th has the address 10.77.0.n."""

    def __init__(self, *hosts: str) -> None:
        self.addresses = {host: f"10.77.0.{n}" for n, host in enumerate(hosts, start=1)}
        _do("mount", "-t", "tmpfs", "tmpfs", "/run")  # here `ip netns` keeps the names
        _do("ip", "link", "add", "bridge", "type", "bridge")
        _do("ip", "link", "set", "bridge", "up")
        for host, address in self.addresses.items():
            _do("ip", "netns", "add", host)
            _do("ip", "link", "add", host, "type", "veth", "peer", "name", "eth0", "netns", host)
            _do("ip", "link", "set", host, "master", "bridge", "up")
            _do("ip", "-n", host, "address", "add", f"{address}/24", "dev", "eth0")
            _do("ip", "-n", host, "link", "set", "eth0", "up")
            _do("ip", "-n", host, "link", "set", "lo", "up")

    def start(self, host: str, *command: str, log: Path, environment: Mapping[str, str]) -> subprocess.Popen:
        """Start a process on a host."""
        with log.open("ab") as stream:
            return subprocess.Popen(
                ["ip", "netns", "exec", host, *command], stdout=stream, stderr=stream, env={**os.environ, **environment}
            )

    def unplug(self, host: str) -> None:
        """Disconnect a host: data sent to it are lost, without an error."""
        _do("ip", "link", "set", host, "down")

    def plug(self, host: str) -> None:
        """Connect a host again."""
        _do("ip", "link", "set", host, "up")

    def slow_down(self, host: str) -> None:
        """Make the cable of a host slow, both ways."""
        _do("tc", "qdisc", "add", "dev", host, "root", *SLOW)
        _do("tc", "-n", host, "qdisc", "add", "dev", "eth0", "root", *SLOW)

    def speed_up(self, host: str) -> None:
        """Make it fast again."""
        _do("tc", "qdisc", "del", "dev", host, "root")
        _do("tc", "-n", host, "qdisc", "del", "dev", "eth0", "root")

    def held_up(self, host: str) -> tuple[int, int]:
        """Return how many packets the slow cable of a host has dropped, both ways, and how often one had to wait."""
        ends = [["tc", "-s", "qdisc", "show", "dev", host], ["tc", "-n", host, "-s", "qdisc", "show", "dev", "eth0"]]
        told = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for command in ends]
        dropped, waited = (re.findall(rf"{word} (\d+)", "".join(told)) for word in ("dropped", "overlimits"))
        return sum(map(int, dropped)), sum(map(int, waited))


def small_disk(size: str) -> Path:
    """Mount a disk of that size, and return where; call it once the network is made."""
    place = Path("/run/small")
    place.mkdir()
    _do("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place))
    return place

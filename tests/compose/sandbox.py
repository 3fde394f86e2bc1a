"""A sandbox for the checks of docker-compose.yml, with its own Docker daemon.

The process moves into its own namespaces and keeps all files in a tmpfs there. When it ends for any
reason, the kernel removes its containers, networks, firewall rules, mounts and files. There is no
network, so no image can be pulled. The three base images are built from programs that are installed
on this machine.
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HOME = pathlib.Path("/mnt")
PROJECT = HOME / "sukkal"
# Folder with the key and the configuration of a Docker daemon.
DAEMON_SETTINGS = pathlib.Path("/etc/docker")
REPOSITORY = pathlib.Path(__file__).parents[2]
CGROUP = "sukkal-compose"
ISOLATED = "SUKKAL_COMPOSE_ISOLATED"
PASSWD = "root:x:0:0::/root:/bin/sh\nredis:x:999:999::/data:/bin/sh\n"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
# Libraries in the image of Debian that Sukkal may need.
LIBRARIES = ["libc6", "libgcc-s1"]


def isolate():
    """Restarts this program in its own namespaces."""
    if os.geteuid() != 0:
        sys.exit("a Docker daemon needs root")
    if ISOLATED not in os.environ:
        namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        os.environ[ISOLATED] = "yes"
        os.execvp("unshare", ["unshare", *namespaces, sys.executable, *sys.argv])
    run("ip", "link", "set", "lo", "up")
    run("mount", "-t", "tmpfs", "tmpfs", HOME)
    DAEMON_SETTINGS.mkdir(exist_ok=True)
    run("mount", "-t", "tmpfs", "tmpfs", DAEMON_SETTINGS)
    os.environ |= {"DOCKER_HOST": f"unix://{HOME}/docker.sock", "DOCKER_CONFIG": f"{HOME}/client", "DOCKER_BUILDKIT": "0"}


def run(*command, check=True, **options):
    """Runs a command and returns its stdout and stderr together."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if check and done.returncode != 0:
        raise SystemExit(f"{command} exits with {done.returncode}:\n{done.stdout}")
    return done.stdout


def until(what, condition, seconds):
    """Waits until a condition is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not within {seconds} s")
        time.sleep(0.05)


@contextlib.contextmanager
def daemon():
    """Runs a Docker daemon until the end of the block."""
    folders = [f"--{name}={HOME}/{folder}" for name, folder in [("data-root", "data"), ("exec-root", "exec")]]
    files = [f"--pidfile={HOME}/pid", f"--cgroup-parent={CGROUP}", "--host", os.environ["DOCKER_HOST"]]
    log = HOME / "dockerd.log"
    with log.open("w") as output:
        process = subprocess.Popen(["dockerd", *folders, *files], stdout=output, stderr=output)
    answers = lambda: process.poll() is None and subprocess.run(["docker", "info"], capture_output=True).returncode == 0
    try:
        until("dockerd answers", answers, 30)
    except SystemExit:
        print(log.read_text()[-4000:], file=sys.stderr)
        raise
    try:
        yield
    finally:
        containers = run("docker", "ps", "--quiet", check=False).split()
        run("docker", "kill", *containers, check=False)
        process.terminate()
        process.wait()
        for folder in pathlib.Path("/sys/fs/cgroup").glob(f"**/{CGROUP}"):
            with contextlib.suppress(OSError):
                folder.rmdir()
        run("umount", DAEMON_SETTINGS, check=False)
        with contextlib.suppress(OSError):
            DAEMON_SETTINGS.rmdir()


def import_images(sukkal):
    """Creates the base images of the Dockerfile and the compose file from installed programs."""
    tools = ["sh", "cat", "cp", "mkdir", "od", "touch", "wc"]
    folder = root("rust", tools)
    copy(sukkal, folder, "/prebuilt/sukkal")
    copy(pathlib.Path(__file__).with_name("cargo"), folder, "/usr/bin/cargo")
    copy(CERTIFICATES, folder)
    import_image("rust:1-bookworm", folder)

    folder = root("debian", ["sh", "install"])
    for library in run("dpkg", "-L", *LIBRARIES).split():
        if re.search(r"\.so[.0-9]*$", library) and os.path.isfile(library):
            copy(library, folder)
    import_image("debian:bookworm-slim", folder)

    folder = root("redis", ["sh", "grep", "redis-server", "redis-cli"])
    os.makedirs(folder / "data")
    os.chown(folder / "data", 999, 999)
    import_image("redis:7-alpine", folder, "--change", "WORKDIR /data")


def root(name, programs):
    """Creates a root file system with programs and their libraries."""
    folder = HOME / "roots" / name
    for program in programs:
        path = shutil.which(program)
        copy(path, folder, f"/usr/bin/{program}")
        for library in re.findall(r"(/\S+) \(0x", run("ldd", path, check=False)):
            copy(library, folder)
    os.makedirs(folder / "etc", exist_ok=True)
    (folder / "etc/passwd").write_text(PASSWD)
    (folder / "bin").symlink_to("usr/bin")
    os.makedirs(folder / "tmp")
    return folder


def copy(path, folder, target=None):
    target = folder / (target or str(path)).lstrip("/")
    os.makedirs(target.parent, exist_ok=True)
    shutil.copy(path, target)


def import_image(name, folder, *changes):
    archive = f"{folder}.tar"
    run("tar", "--create", "--file", archive, "--directory", folder, ".")
    run("docker", "import", *changes, archive, name)


def copy_project():
    """Copies the files that a clone of the repository has."""
    for name in run("git", "-C", REPOSITORY, "ls-files").splitlines():
        os.makedirs((PROJECT / name).parent, exist_ok=True)
        shutil.copy(REPOSITORY / name, PROJECT / name)

#!/bin/sh -p
# Makes the agent's Debian package with dpkg-deb alone, in the given directory:
#
#   deploy/agent-deb.sh dist      dist/jobsight-agent_VERSION_all.deb
#
# It has the agent for the system's Python, hook, settings, unit, user and spool. The service starts once it is enabled,
# after agent.toml has the server and the token.
set -eu
into=$(mkdir -p "${1:?directory for the package}" && cd "$1" && pwd)
cd "$(dirname "$0")/.."
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' agent/jobsight_agent/__init__.py)
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
umask 022

put() { install -D -m "$1" "$2" "$room/$3"; }
for file in agent/jobsight_agent/*.py agent/jobsight_agent/py.typed; do
    put 644 "$file" "usr/lib/python3/dist-packages/jobsight_agent/${file##*/}"
done
put 644 deploy/agent.toml etc/jobsight/agent.toml
put 644 deploy/systemd/jobsight.sysusers usr/lib/sysusers.d/jobsight.conf
put 644 deploy/systemd/jobsight.tmpfiles usr/lib/tmpfiles.d/jobsight.conf
put 644 deploy/systemd/jobsight-agent.service usr/lib/systemd/system/jobsight-agent.service
sed -i 's|^ExecStart=/opt/jobsight/bin/|ExecStart=/usr/bin/|' "$room/usr/lib/systemd/system/jobsight-agent.service"
put 500 deploy/hooks/mark-job usr/lib/jobsight/mark-job
sed -i 's|^PYTHON=.*|PYTHON=/usr/bin/python3|' "$room/usr/lib/jobsight/mark-job"
for name in prologue epilogue prolog epilog execjob_begin execjob_epilogue execjob_end; do
    ln -s mark-job "$room/usr/lib/jobsight/$name"
done
put 644 deploy/man/jobsight-agent.1 usr/share/man/man1/jobsight-agent.1
gzip -9n "$room/usr/share/man/man1/jobsight-agent.1"
put 644 LICENSE usr/share/doc/jobsight-agent/copyright
mkdir "$room/usr/bin" "$room/DEBIAN"
cat >"$room/usr/bin/jobsight-agent" <<'END'
#!/usr/bin/python3 -I
import sys

from jobsight_agent.cli import main

sys.exit(main())
END
chmod 755 "$room/usr/bin/jobsight-agent"

cat >"$room/DEBIAN/control" <<END
Package: jobsight-agent
Version: $version
Architecture: all
Maintainer: The Jobsight developers <jobsight@localhost>
Section: admin
Priority: optional
Depends: python3 (>= 3.11), systemd
Recommends: python3-psutil
Description: Jobsight's agent: measures network, memory and CPU of a cluster's node
 It reads the counters of the kernel and of jobs' cgroups, and sends them to
 Jobsight's server, which tells users how much memory and time to request.
END
echo /etc/jobsight/agent.toml >"$room/DEBIAN/conffiles"
# With DPKG_ROOT, as of `dpkg --root`, for the image of a node.
cat >"$room/DEBIAN/postinst" <<'END'
#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
systemd-sysusers --root="$DPKG_ROOT/" jobsight.conf
[ -n "$DPKG_ROOT" ] || systemd-tmpfiles --create jobsight.conf
[ -n "$DPKG_ROOT" ] || [ ! -d /run/systemd/system ] || systemctl daemon-reload
[ -n "$DPKG_ROOT" ] || [ -z "$2" ] || systemctl try-restart jobsight-agent || true
END
cat >"$room/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
[ "$1" != remove ] || [ -n "$DPKG_ROOT" ] || [ ! -d /run/systemd/system ] || systemctl disable --now jobsight-agent
rm -rf "$DPKG_ROOT/usr/lib/python3/dist-packages/jobsight_agent/__pycache__"
END
cat >"$room/DEBIAN/postrm" <<'END'
#!/bin/sh
set -e
[ "$1" != purge ] || rm -rf "$DPKG_ROOT/var/spool/jobsight"
[ -n "$DPKG_ROOT" ] || [ ! -d /run/systemd/system ] || systemctl daemon-reload
END
chmod 755 "$room/DEBIAN/postinst" "$room/DEBIAN/prerm" "$room/DEBIAN/postrm"
dpkg-deb --root-owner-group --build "$room" "$into/jobsight-agent_${version}_all.deb"

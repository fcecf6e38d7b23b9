#!/bin/sh
# Installs Jobsight's agent and job hook on this node; made by `jobsight setup` on the server, with all that it needs.
# It holds a token: keep it readable by root only.
#
#   sh jobsight-node.sh [--prefix DIR] [--node NAME]     install, or bring up to date; again changes nothing
#   sh jobsight-node.sh --uninstall [--prefix DIR]       not while a script of the scheduler calls what it removes
#
# --prefix: all below DIR, no service and no user: for a trial, or a node image. --node: this node's name, as the
# scheduler writes it, if it is not the short host name. PYTHON in the environment names a Python 3.11 or later.
#
# Root runs this, perhaps in a directory and with an environment that another user controls. So it starts once more
# with a path of its own and PYTHON alone; up to there are only assignments and keywords, and exec is found before a
# function of that name in POSIX mode. Then it works from /, and every Python runs isolated (-I).
POSIXLY_CORRECT=1
HOOK_COPIES=
STARTED=
PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin
case $0 in
    *.sh) ;;
    *) exec /usr/bin/env -i PATH="$PATH" /bin/sh -pc 'echo "jobsight-node: run the file by its name, which ends in .sh, such as sh jobsight-node.sh; from standard input it cannot unpack what it carries" >&2; exit 2' ;;
esac
case $0 in /*) self=$0 ;; *) self=$PWD/$0 ;; esac
case ${1-} in
    --clean) shift ;;
    *) exec /usr/bin/env -i PATH="$PATH" PYTHON="${PYTHON:-python3}" /bin/sh -p "$self" --clean "$@" ;;
esac
set -eu
cd /
prefix='' node='' uninstall=''
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) prefix=${2%/}; shift 2 ;;
        --node) node=$2; shift 2 ;;
        --uninstall) uninstall=yes; shift ;;
        *) sed -n '2,9s/^# \{0,1\}//p' "$self" >&2; exit 2 ;;
    esac
done
fail() { echo "jobsight-node: $1" >&2; exit 1; }
case $prefix in '' | /*) ;; *) fail "--prefix $prefix: give a whole path" ;; esac
case $node in *[!A-Za-z0-9._-]*) fail "--node $node: not a node's name" ;; esac
[ -n "$prefix" ] || [ "$(id -u)" = 0 ] || fail 'run it as root, or give --prefix'
opt=$prefix/opt/jobsight etc=$prefix/etc/jobsight lib=$prefix/usr/local/lib/jobsight spool=$prefix/var/spool/jobsight
services=
[ -n "$prefix" ] || [ ! -d /run/systemd/system ] || services=yes

unpack() {
    tail -n +"$(($(grep -an '^# ARCHIVE$' "$self" | head -n 1 | cut -d: -f1) + 1))" "$self" | tar -xzf - -C "$room" "$@" || fail 'the file is damaged: copy it again'
}

if [ -n "$uninstall" ]; then
    python=$opt/agent/bin/python3
    [ -x "$python" ] || python=$(command -v "$PYTHON") || fail "$PYTHON: not found; it reads the scheduler's scripts: PYTHON=... names it"
    room=$(mktemp -d)
    trap 'rm -rf "$room"' EXIT
    unpack site_scripts.py
    "$python" -I -B "$room/site_scripts.py" "$prefix" "$STARTED" "$lib" "$opt/agent" >"$room/calls" ||
        fail "nothing is removed, as the scheduler's scripts still call it; take these lines out first:
$(cat "$room/calls")"
    [ -z "$services" ] || systemctl disable --now jobsight-agent 2>/dev/null || true
    for copy in $HOOK_COPIES; do
        ! cmp -s "$prefix$copy" "$lib/mark-job" || rm -f "$prefix$copy"
    done
    rm -rf "$opt/agent"
    for name in mark-job prologue epilogue prolog epilog execjob_begin execjob_epilogue execjob_end; do
        rm -f "$lib/$name"
    done
    rm -f "$etc/agent.toml" "$etc/.agent.toml.shipped" "$etc/agent-token"
    [ -n "$prefix" ] || rm -f /etc/systemd/system/jobsight-agent.service /etc/tmpfiles.d/jobsight.conf
    rmdir "$lib" "$etc" "$opt" 2>/dev/null || true
    rm -rf "$spool" # follows no links
    echo 'jobsight-node: removed'
    exit 0
fi

python=$(command -v "$PYTHON") || fail "$PYTHON: not found; PYTHON=... names a Python 3.11 or later by its whole path"
"$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$python is too old: PYTHON=... names 3.11 or later"
mkdir -p "$opt"
room=$(mktemp -d "$opt/.new.XXXXXX")
trap 'rm -rf "$room"; rmdir "$opt" 2>/dev/null || true' EXIT
unpack
"$python" -I -B -c 'import sys; sys.path.insert(0, sys.argv[1]); import psutil, jobsight_agent' "$room/site" ||
    fail "its agent does not run with $python on $(uname -m)"

user=root
if [ -z "$prefix" ]; then
    user=jobsight
    if ! id jobsight >/dev/null 2>&1; then
        useradd --system --home-dir /var/lib/jobsight --no-create-home --shell /usr/sbin/nologin jobsight
    fi
else
    user=$(id -un)
fi
group=$(id -gn "$user")
own() { [ "$(id -u)" != 0 ] || chown "$1" "$2"; }
# put FROM TO MODE OWNER: replaces TO only where it differs.
put() {
    cmp -s "$1" "$2" || { cp "$1" "$2.new"; chmod "$3" "$2.new"; own "$4" "$2.new"; mv "$2.new" "$2"; changed=yes; echo "jobsight-node: wrote $2"; }
    chmod "$3" "$2"; own "$4" "$2"
}
changed=
mkdir -p "$etc" "$lib" "$spool"
# The agent's user owns the spool and may have left links there, which root must not follow.
own "$user:$group" "$spool"; chmod 750 "$spool"

# A Python environment without pip, in which the two packages lie.
[ -x "$opt/agent/bin/python3" ] || "$python" -I -m venv --without-pip "$opt/agent"
site=$("$opt/agent/bin/python3" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
for package in "$room"/site/*; do
    name=${package##*/}
    if ! diff -rq -x __pycache__ "$package" "$site/$name" >/dev/null 2>&1; then
        rm -rf "${site:?}/$name"
        cp -R "$package" "$site/$name"
        changed=yes
        echo "jobsight-node: wrote $site/$name"
    fi
done
printf '#!%s -I\nimport sys\nfrom jobsight_agent.cli import main\nsys.exit(main())\n' "$opt/agent/bin/python3" >"$room/jobsight-agent"
put "$room/jobsight-agent" "$opt/agent/bin/jobsight-agent" 755 root

# Settings: a site's own edits stay.
sed -e "s|^token_file = .*|token_file = \"$etc/agent-token\"|" -e "s|^# spool = .*|&\nspool = \"$spool\"|" "$room/agent.toml" >"$room/settings"
[ -z "$node" ] || printf '%s\n' "node = \"$node\"" >>"$room/settings"
if [ -e "$etc/agent.toml" ] && ! cmp -s "$etc/agent.toml" "$room/settings" && ! cmp -s "$etc/agent.toml" "$etc/.agent.toml.shipped"; then
    echo "jobsight-node: kept $etc/agent.toml, which was edited; what it would be now:"
    diff -u "$etc/agent.toml" "$room/settings" || true
else
    put "$room/settings" "$etc/agent.toml" 644 root
    put "$room/settings" "$etc/.agent.toml.shipped" 644 root
fi
put "$room/agent-token" "$etc/agent-token" 640 "root:$group"

# The hook, under the names of every scheduler.
sed -e "s|^PYTHON=.*|PYTHON=$opt/agent/bin/python3|" -e "s|^CONFIG=.*|CONFIG=$etc/agent.toml|" -e "s|^SPOOL=.*|SPOOL=$spool|" \
    -e "s|^AGENT_USER=.*|AGENT_USER=$user|" -e "s|^AGENT_GROUP=.*|AGENT_GROUP=$group|" "$room/mark-job" >"$room/hook"
put "$room/hook" "$lib/mark-job" 500 root
for name in prologue epilogue prolog epilog execjob_begin execjob_epilogue execjob_end; do
    ln -sf mark-job "$lib/$name"
done
for copy in $HOOK_COPIES; do
    if [ ! -d "$(dirname "$prefix$copy")" ]; then
        echo "jobsight-node: no directory for $copy on this node; the hook is in $lib" >&2
    elif [ -e "$prefix$copy" ] && ! grep -q jobsight "$prefix$copy"; then
        echo "jobsight-node: kept $prefix$copy, which is the site's own: add to it: [ ! -x $lib/$(basename "$copy") ] || $lib/$(basename "$copy") \"\$@\"" >&2
    else
        put "$room/hook" "$prefix$copy" 500 root
    fi
done

if [ -z "$prefix" ]; then
    sed "s|^ExecStart=/opt/jobsight/bin/|ExecStart=$opt/agent/bin/|" "$room/jobsight-agent.service" >"$room/unit"
    mkdir -p /etc/systemd/system /etc/tmpfiles.d
    put "$room/unit" /etc/systemd/system/jobsight-agent.service 644 root
    put "$room/jobsight.tmpfiles" /etc/tmpfiles.d/jobsight.conf 644 root
fi
if [ -n "$services" ]; then
    systemctl daemon-reload
    systemctl enable --quiet jobsight-agent
    if [ -n "$changed" ] || ! systemctl is-active --quiet jobsight-agent; then systemctl restart jobsight-agent; fi
else
    echo "jobsight-node: no service here; start it: $opt/agent/bin/jobsight-agent run --config $etc/agent.toml"
fi
[ -n "$changed" ] || echo 'jobsight-node: nothing to change'
exit 0
# ARCHIVE

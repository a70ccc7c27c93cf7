/**
 * The script that each client runs in the container, as root: it prepares the container, chooses the runtime, and becomes the
 * server. bash is all it needs of the image, with the tools that come with it everywhere.
 *
 *   enter CWD FINGERPRINT UID GID NAME [OWN...]
 *
 * Its exit codes are those of a program that an engine cannot run, 126 and 127, and these.
 */
export const MOUNT_MISSING = 71
export const NO_ADDON = 72
export const NO_RUNTIME = 73
/** That of the server, which has refused the options. The last line of its errors is the envelope of its error. */
export const REFUSED = 76

/** Where the container has the files of nacre. */
export const INSIDE = '/opt/nacre'

export const enter = `#!/bin/bash
set -u
cwd=$1 fingerprint=$2 uid=$3 gid=$4 name=$5
shift 5
fail() { printf '%s\\n' "$2" >&2; exit "$1"; }

# This process may come and go between two looks of the init.
kill -USR1 1

found=$(cd "$cwd" 2>/dev/null && LC_ALL=C ls -A | LC_ALL=C sort | head -n 50 | cksum)
[ "$found" = "$fingerprint" ] || fail ${MOUNT_MISSING} "$cwd has other files inside"

# The runtime and many tools fail without a name for their user.
if [ "$uid" != 0 ]; then
  entry=$(grep -m1 "^[^:]*:[^:]*:$uid:" /etc/passwd) || {
    entry="$name:x:$uid:$gid::/home/$name:/bin/bash"
    echo "$entry" >>/etc/passwd
  }
  HOME=$(cut -d: -f6 <<<"$entry")
  [ -d "$HOME" ] || { mkdir -p "$HOME" && chown "$uid:$gid" "$HOME"; }
else
  HOME=/root
fi
export HOME

# New volumes belong to root. A program of the container may have put a link on the way.
for directory; do
  (cd -P -- "$directory" && [ "$PWD" = "$directory" ] &&
    { [ "$(stat -c %u .)" = "$uid" ] || chown "$uid:$gid" .; })
done

# The addon must be built for the C library of the runtime, which is that of the image.
libc=gnu
for loader in /lib/ld-musl-*; do [ -e "$loader" ] && libc=musl; done
for loader in /lib*/ld-linux*; do [ -e "$loader" ] && libc=gnu; done
[ -d ${INSIDE}/$libc ] || fail ${NO_ADDON} $libc
export NACRE_NATIVE_PATH=${INSIDE}/$libc

if node=$(command -v node) && [[ $("$node" --version) =~ ^v([0-9]+)\\.([0-9]+) ]] &&
  major=\${BASH_REMATCH[1]} minor=\${BASH_REMATCH[2]} &&
  ((major > 22 || (major == 22 && minor >= 3) || (major == 20 && minor >= 19))); then
  runtime=$node
elif [ -x ${INSIDE}/bun-$libc ]; then
  runtime=${INSIDE}/bun-$libc
else
  fail ${NO_RUNTIME} $libc
fi
# A runtime reads settings in the directory where it starts and in the home directory, which commands can write.
cd /
export NACRE_HOME=$HOME HOME=/root
unset XDG_CONFIG_HOME
shopt -s execfail
exec "$runtime" ${INSIDE}/inside.js
fail ${NO_RUNTIME} $libc
`

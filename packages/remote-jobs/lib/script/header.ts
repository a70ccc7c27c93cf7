/**
 * The beginning of the supervisor script, which every call shares.
 */
export const HEADER = `# Durable jobs for a machine that can only run commands: the supervisor, and the calls of its clients.
#
#   sh <this file> <root> <verb> [argument ...]
#
# POSIX shell, and the programs that \`start\` checks for. A reply stands between two marks, since login shells and the
# transport may add text. Times are in hundredths of a second, sizes in bytes. \`local\` is not in POSIX: names are global.

mask=
blanks=$IFS
self=$0 root=$1 verb=$2
shift 2
[ "$verb" != start ] || mask=$(umask)
umask 077
boot=
{ read -r boot </proc/sys/kernel/random/boot_id; } 2>/dev/null
`

/**
 * Runs a command on a machine that has been used badly: `/nonexistent` and `/nowhere` are directories, the temporary directory
 * is full of old leftovers, other programs have the names of nacre's, and HOME is not set. Fails also if the command leaves
 * something in `/`, `/srv` or `/var/tmp`.
 *
 *   node scripts/test/hostile.mjs PROGRAM [ARG...]
 *
 * Needs root. All of this is in namespaces, so nothing of it reaches the machine itself.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

const SCRIPT = `
set -eu
root=$1/root
export TMPDIR=$1/tmp
shift
# A copy of / that may be written to: mount points for what is there.
mount -t tmpfs -o mode=755 root "$root"
for entry in /* /.[!.]*; do
  place=$root$entry
  if [[ -L $entry ]]; then cp -P "$entry" "$place"
  elif [[ -d $entry ]]; then mkdir "$place"; mount --rbind "$entry" "$place"
  elif [[ -f $entry ]]; then touch "$place"; mount --bind "$entry" "$place"
  fi
done
mkdir "$root/nonexistent" "$root/nowhere"
echo 'echo this must not run' >"$root/nonexistent/file"
cp "$root/nonexistent/file" "$root/nonexistent/program"; chmod +x "$root/nonexistent/program"
cd "$root"
pivot_root . .
umount -l .
# Below the temporary directory, too, which / would otherwise contain once more.
umount -l "$root"
cd "$OLDPWD"

# Programs of the machine write there, too. What these have does not lie below /tmp, which some tests hide.
for place in srv var/tmp; do mount -t tmpfs -o mode=1777 own "/$place"; done

# What programs that were killed have left.
uid=$(id -u)
for at in {1..300}; do
  mkdir -p "$TMPDIR/nacre-$uid/$at-0123456789abcdef" "$TMPDIR/nacre-test-$at-1-abcdef/work" "$TMPDIR/sandbox-jobs/old-$at"
  echo '{' >"$TMPDIR/sandbox-jobs/old-$at/status.json"
  mkfifo "$TMPDIR/nacre-$uid/$at-0123456789abcdef/pipe"
done
chmod 700 "$TMPDIR/nacre-$uid" "$TMPDIR/sandbox-jobs"
for name in nacre-supervisor nacre-files nacre bash; do
  (exec -a "$name" sleep 100000) </dev/null >/dev/null 2>&1 &
done

unset HOME
# pyenv makes a directory in the home of programs of Python, which is / without HOME.
list() { find / -mindepth 1 -maxdepth 1 -not -name .pyenv; find /srv /var/tmp -mindepth 1; }
before=$(list | sort)
code=0
"$@" || code=$?
added=$(comm -13 <(echo "$before") <(list | sort))
[[ -z $added ]] || { echo "outside of their own directories, the tests have left:"; echo "$added"; code=1; }
exit $code
`

const base = mkdtempSync(path.join(os.tmpdir(), 'hostile-'))
try {
  // Other users, as which some tests run programs, may traverse it.
  chmodSync(base, 0o711)
  for (const name of ['root', 'tmp']) mkdirSync(path.join(base, name), { mode: 0o711 })
  const namespaces = ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc']
  const words = [...namespaces, 'bash', '-c', SCRIPT, 'bash', base, ...process.argv.slice(2)]
  const { status } = spawnSync('unshare', words, { stdio: 'inherit' })
  process.exitCode = status ?? 1
} finally {
  rmSync(base, { recursive: true })
}

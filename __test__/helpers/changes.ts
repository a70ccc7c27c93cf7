/** Files for tests of copy-on-write workspaces, and a way to compare directories. */
import { mkdirSync, readdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'

/** Makes the files that {@link CHANGE} changes. */
export function prepare({ directory }: { directory: string }): void {
  mkdirSync(path.join(directory, 'sub'))
  writeFileSync(path.join(directory, 'a'), 'one\n')
  writeFileSync(path.join(directory, 'sub/b'), 'two\n')
  writeFileSync(path.join(directory, 'tool'), '#!/bin/sh\n')
}

/** A command that makes every kind of change. */
export const CHANGE = `echo changed > a; rm -r sub; chmod +x tool; mkdir -p deep/er; ln -s ../a deep/link
  head -c 3000 /dev/urandom > deep/er/binary; printf 'no newline' > deep/text`

/** The content, the target or the kind of everything below a directory, with its mode. */
export function tree(directory: string): Record<string, unknown> {
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' }).sort()
  const entries = names.map((name) => [name, entryAt(path.join(directory, name))])
  return Object.fromEntries(entries)
}

function entryAt(file: string): unknown {
  const stat = statSync(file, { throwIfNoEntry: false })
  try {
    return `-> ${readlinkSync(file)}`
  } catch {
    if (stat?.isDirectory() === true) return 'directory'
    return `${(stat?.mode ?? 0) & 0o777} ${readFileSync(file, 'latin1')}`
  }
}

/** The entries of a directory by path: kind, permissions, and content or target. As a program, prints those of its argument. */
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import path from 'node:path'

export function readTree(directory) {
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' })
  return Object.fromEntries(names.map((name) => [name, describe(path.join(directory, name))]))
}

function describe(file) {
  const stat = lstatSync(file)
  if (stat.isSymbolicLink()) return `link ${readlinkSync(file)}`
  const mode = (stat.mode & 0o7777).toString(8)
  if (stat.isFile()) return `file ${mode} ${readFileSync(file, 'latin1')}`
  return `${stat.isDirectory() ? 'directory' : 'other'} ${mode}`
}

if (import.meta.filename === process.argv[1]) console.log(JSON.stringify(readTree(process.argv[2])))

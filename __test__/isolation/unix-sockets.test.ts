/** Unix sockets in a session: its own work, and those of the machine are out of reach where it only reads. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { type Isolation, Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { temporary } from '../helpers/temporary.js'
import { runInTier } from './run-in-tier.js'

/** Perl that connects to a path and prints what it reads, or why not. */
const connect = (file: string) =>
  `perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un("${file}")) or print "no: $!"; sysread(S, $b, 9); print $b'`

it('a socket of the machine in a directory that the session only reads is out of reach', async () => {
  // Below /tmp, where the directory is bound into a private one.
  const directory = mkdtempSync('/tmp/nacre-unix-')
  const server = net.createServer((socket) => socket.end('REACHED'))
  await new Promise<void>((resolve) => server.listen(path.join(directory, 'socket'), resolve))
  const sandbox = new Sandbox({ cwd: directory, isolation: 'read-only' })
  try {
    expect((await sandbox.exec(connect('socket'))).stdout).toBe('no: Operation not permitted')
  } finally {
    await sandbox.destroy()
    server.close()
    rmSync(directory, { recursive: true })
  }
})

it('connections whose programs have ended hold up no others', () =>
  withSandbox(
    async ({ sandbox }) => {
      const full = await sandbox.startProcess([
        'perl',
        '-MSocket',
        '-e',
        'socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, pack_sockaddr_un("full")); listen(S, 0); syswrite(STDOUT, "up\n"); sleep 60',
      ])
      await full.waitForLog('up')
      // More than the broker makes at a time; each waits for a place in the listener's queue until it is killed.
      const waiting = `perl -MSocket -e 'for (1 .. 80) { fork or do { socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un("full")); sleep 60; exit } } sleep 1; kill 9, -getpgrp'`
      await sandbox.exec(`setsid -w ${waiting}`)
      const own = `perl -MSocket -e 'socket(L, AF_UNIX, SOCK_STREAM, 0); bind(L, pack_sockaddr_un("free")); listen(L, 5)
        or die; for (1 .. 50) { socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un("free")) and print("connected") and exit; select(undef, undef, undef, 0.1) }'`
      expect((await sandbox.exec(own)).stdout).toBe('connected')
      await full.kill()
    },
    { options: { isolation: { filesystem: { write: ['.'] }, network: 'none', processes: 'own' } } },
  ))

/** Perl that listens at a path and answers connections; it has forked once before that if `daemon`. */
const listen = (file: string, daemon: boolean) =>
  `perl -MSocket -e 'socket(L, AF_UNIX, SOCK_STREAM, 0); bind(L, pack_sockaddr_un("${file}")) and listen(L, 5) or die $!; ${daemon ? 'fork and exit; close STDOUT; close STDERR;' : ''} while (accept(S, L)) { syswrite(S, "REACHED"); close S }'`

describe.each(['', 'landlock'])('with NACRE_ISOLATION=%s', (tier) => {
  it.each([
    ['that runs in the background', `${listen('own', false)} & until [ -S own ]; do :; done; sleep 0.2`],
    ['that has forked and ended', listen('own', true)],
    [
      'that has lost its parent',
      `(setsid ${listen('own', false)} &); until [ -S own ]; do :; done; sleep 0.2`,
    ],
  ])('reaches a server of its own %s', (_, serve) => {
    const directory = temporary('nacre-unix-', '/var/tmp')
    mkdirSync(path.join(directory, 'work'))
    const rules: Isolation = { filesystem: { write: ['.'] }, network: 'none', processes: 'own' }
    expect(runInTier(tier, directory, rules, `${serve}; ${connect('own')}`)).toBe('REACHED')
  })
})

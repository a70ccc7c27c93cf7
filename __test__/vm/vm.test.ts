/** `openSandbox` with a virtual machine, which QEMU emulates. Run by `npm run test:vm`. */
import { execFile, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { connect } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import type { Isolation } from 'nacre'
import { type EngineOptions, type EngineSandbox, openSandbox } from 'nacre/engine'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { asOrdinaryUser, giveToOrdinaryUser, obstacle, ordinaryUser } from '../helpers/ordinary-user.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'
import { descendants, look } from './processes.js'

/** From scripts/test-vm.mjs. */
const kernel = process.env.NACRE_TEST_KERNEL ?? ''
const ownKernel = process.env.NACRE_TEST_OWN_KERNEL ?? ''
/** Milliseconds in which a machine starts on a busy test machine. */
const BOOT_MS = 240_000
/** A file that the machine has, and the guest must not change. */
const OUTSIDE = '/usr/share/nacre-vm-test'

const machine = (cwd: string, options: EngineOptions = {}): Promise<EngineSandbox> =>
  openSandbox({ engine: 'vm', emulate: true, memory: '1g', kernel, cwd, ...options })

describe.each([
  { name: "with Debian's kernel", kernel, release: /\d-cloud-amd64$/ },
  { name: 'with the kernel of the package', kernel: ownKernel, release: /^\d+\.\d+\.\d+$/ },
])(
  'a virtual machine $name',
  ({ kernel, release }) => {
    let project: string
    let sandbox: EngineSandbox
    const output = async (command: string) => (await sandbox.exec(command)).stdout.trim()

    beforeAll(async () => {
      project = path.join(os.tmpdir(), `nacre-vm ä,=${process.pid}`)
      mkdirSync(project)
      writeFileSync(path.join(project, 'file'), 'of the machine\n')
      sandbox = await machine(project, { kernel })
    }, BOOT_MS)

    afterAll(async () => {
      await sandbox?.destroy()
      execFileSync('rm', ['-rf', project])
    })

    it('has a kernel of its own, and tells about itself', async () => {
      expect(await output('uname -r')).toMatch(release)
      expect(await output('cat /proc/version')).not.toBe(readFileSync('/proc/version', 'utf8').trim())
      expect(sandbox).toMatchObject({ container: null, vm: { emulated: true, pid: expect.any(Number) } })
    })

    it('keeps the state of a session', async () => {
      await sandbox.exec('cd /usr; x=5')
      expect(await output('echo $PWD $x')).toBe('/usr 5')
      await sandbox.exec(`cd '${project}'`)
    })

    it('shares the project in both directions', async () => {
      expect(await output('cat file')).toBe('of the machine')
      await sandbox.exec('mkdir -p sub && echo of the guest > sub/file')
      expect(readFileSync(path.join(project, 'sub/file'), 'utf8')).toBe('of the guest\n')
      expect(statSync(path.join(project, 'sub/file')).uid).toBe(process.getuid?.())
      await sandbox.files.write(path.join(project, 'call'), 'by a call\n')
      expect(readFileSync(path.join(project, 'call'), 'utf8')).toBe('by a call\n')
      writeFileSync(path.join(project, 'later'), 'of the machine\n')
      await until(
        async () => (await sandbox.exec('cat later')).success || undefined,
        () => 'a new file of the machine is not there',
      )
    })

    it('runs the programs of the machine', async () => {
      expect(await output('node -p 6*7')).toBe('42')
      expect(await output('git init -q r && git -C r status --short && echo fine')).toBe('fine')
    })

    it('changes nothing else on the machine, as root of the guest', async () => {
      expect(await output('id -u')).toBe('0')
      await sandbox.exec(`echo x > ${OUTSIDE}; rm -f /etc/hostname; rm -f /usr/bin/yes`)
      expect(await output(`cat ${OUTSIDE}; ls /etc/hostname 2>&1 | tail -c 10`)).toContain('x')
      expect([existsSync(OUTSIDE), existsSync('/usr/bin/yes')]).toEqual([false, true])
    })

    it('has no secrets, no processes and no network of the machine', async () => {
      expect(await output('cat /etc/shadow ~/.bash_history 2>/dev/null')).toBe('')
      expect(await output('ls -A ~/.ssh 2>/dev/null')).toBe('')
      expect(await output('cat /proc/*/cmdline | tr "\\0" " "')).not.toContain('qemu')
      expect(await output('ls /sys/class/net')).toBe('lo')
      // What the shares have, without what the guest has mounted above.
      const shown = await sandbox.exec(
        'mkdir -p /tmp/raw && mount -t virtiofs -o ro root /tmp/raw && mount -o remount,rw /tmp/raw && ls /tmp/raw',
      )
      expect(shown.stdout).toContain('usr')
      expect(
        await output('ls -A /tmp/raw/proc /tmp/raw/sys /tmp/raw/run /tmp/raw/tmp /tmp/raw/dev | grep -v :'),
      ).toBe('')
      expect(await output('cat /tmp/raw/etc/shadow')).toBe('')
      await sandbox.exec(`touch /tmp/raw${OUTSIDE}`)
      expect(existsSync(OUTSIDE)).toBe(false)
      await sandbox.exec('umount /tmp/raw')
    })

    it('leaves no program on the machine that has rights of its owner, and no device', async () => {
      const { stdout } = await sandbox.exec(
        'cp /bin/true suid; chmod 4755 suid; mknod null c 1 3; stat -c %a suid; ls',
      )
      expect(stdout).not.toContain('null')
      expect(statSync(path.join(project, 'suid')).mode & 0o6000).toBe(0)
      expect(existsSync(path.join(project, 'null'))).toBe(false)
    })

    it('stands still while it is paused, and goes on then', async () => {
      const { vm } = sandbox
      if (vm === null) throw new Error('it is none')
      const vmm = descendants(vm.pid).find(({ name }) => name.startsWith('qemu'))
      const pending = sandbox.exec('mkfifo /tmp/fifo; touch waiting; read line < /tmp/fifo; echo "got $line"')
      await until(
        () => existsSync(path.join(project, 'waiting')) || undefined,
        () => 'the command does not run',
      )
      await using other = await sandbox.createSession({ id: 'beside' })
      await vm.pause()
      await vm.pause()
      expect(vmm && look(vmm.pid)?.state).toBe('T')
      expect(await rejectionOf(other.exec('true'))).toMatchObject({
        code: 'CONNECTION_FAILED',
        message: expect.stringContaining('vm.resume()'),
      })
      await vm.resume()
      expect(vmm && look(vmm.pid)?.state).not.toBe('T')
      await other.exec('echo line > /tmp/fifo')
      await until(
        async () => {
          const time = Number((await other.exec('date +%s')).stdout)
          return Math.abs(time - Date.now() / 1000) < 2 || undefined
        },
        () => 'its clock does not have the time of the machine',
      )
      expect((await pending).stdout).toBe('got line\n')
    })

    it('runs processes and terminals', async () => {
      const background = await sandbox.startProcess('for i in 1 2 3; do echo $i; done')
      let text = ''
      for await (const event of background.output()) if (event.type === 'stdout') text += event.data
      expect(text).toBe('1\n2\n3\n')
      const terminal = await sandbox.startProcess('tty; stty size', { pty: { cols: 91, rows: 20 } })
      let screen = ''
      for await (const event of terminal.output()) if ('data' in event) screen += event.data
      expect(screen).toMatch(/\/dev\/pts\/\d[\s\S]*20 91/)
    })

    it('passes on large output intact', async () => {
      const { stdout } = await sandbox.exec('head -c 3000000 /dev/zero | tr "\\0" x')
      expect(stdout === 'x'.repeat(stdout.length) && stdout.length > 0).toBe(true)
    })

    it('leads programs of the machine to a port of the guest', async () => {
      const server = `require('net').createServer((s) => s.end('hello')).listen(3000, '127.0.0.1', () => console.log('up'))`
      const running = await sandbox.startProcess(`node -e "${server}"`)
      for await (const event of running.output()) if (event.type === 'stdout') break
      await using forwarding = await sandbox.forward(3000)
      const socket = connect(forwarding.port, '127.0.0.1')
      const [data] = await once(socket, 'data')
      expect(String(data)).toBe('hello')
      socket.destroy()
      await running.kill()
    })

    it('isolates and limits sessions in the guest', async () => {
      const isolation: Isolation = {
        filesystem: { write: ['.'], hide: [path.join(project, 'file')] },
        network: 'none',
      }
      await using session = await sandbox.createSession({ id: 'isolated', isolation })
      const tries = 'cat file; echo x > /etc/x; cat < /dev/tcp/127.0.0.1/9; ulimit -u'
      expect((await session.exec(`${tries}; echo of the session > own; cat own`)).stdout).toMatch(
        /^(\d+|unlimited)\nof the session\n$/,
      )
      expect(existsSync('/etc/x')).toBe(false)
    })

    it(
      'has copy-on-write workspaces, with undo, forks and commits',
      async () => {
        // A program in the guest, with the nacre of the machine.
        const script = `
      const { Sandbox } = require(${JSON.stringify(path.dirname(path.dirname(__dirname)))})
      const fs = require('fs')
      const main = async () => {
        fs.mkdirSync('work')
        fs.writeFileSync('work/file', 'old\\n')
        const stateDir = '/var/lib/nacre/test'
        const options = { cwd: fs.realpathSync('work'), stateDir, workspace: { mode: 'copy-on-write', undoSteps: 5 } }
        const sandbox = new Sandbox(options)
        const cat = async (one) => (await one.exec('cat file')).stdout.trim()
        await sandbox.exec('echo first > file')
        await sandbox.exec('echo second > file')
        const seen = [await cat(sandbox), fs.readFileSync('work/file', 'utf8').trim()]
        // What reads the file is a step, too.
        await sandbox.undo()
        await sandbox.undo()
        seen.push(await cat(sandbox))
        const [fork] = await sandbox.fork(1)
        await fork.exec('echo forked > file')
        seen.push(await cat(fork))
        await fork.destroy()
        await sandbox.workspace.commit()
        seen.push(fs.readFileSync('work/file', 'utf8').trim())
        await sandbox.destroy()
        console.log(seen.join())
      }
      main()
    `
        await sandbox.files.write(path.join(project, 'workspace.cjs'), script)
        const env = process.env.NACRE_NATIVE === undefined ? {} : { NACRE_NATIVE: process.env.NACRE_NATIVE }
        const { stdout, stderr } = await sandbox.exec('node workspace.cjs', { env })
        expect([stdout, stderr]).toEqual(['second,old,first,forked,first\n', ''])
      },
      BOOT_MS,
    )
  },
  BOOT_MS,
)

/** Runs a program that some words start. Its code has `open`, which takes more options. Returns what it prints. */
async function printedWithin(words: string[], options: EngineOptions, code: string): Promise<string> {
  const root = path.dirname(path.dirname(__dirname))
  const script = `
    import { openSandbox } from ${JSON.stringify(path.join(root, 'dist/engine/index.js'))}
    const open = () => openSandbox(${JSON.stringify({ engine: 'vm', ...options })})
    ${code}
    process.exit()
  `
  const [program = '', ...rest] = [...words, process.execPath, '--input-type=module', '-e', script]
  const { stdout } = await promisify(execFile)(program, rest)
  return stdout
}

/** What a program prints that cannot have a machine. */
const refusalWithin = (words: string[], options: EngineOptions) =>
  printedWithin(
    words,
    { cwd: temporary('nacre-vm-'), ...options },
    'console.log(await open().then(() => "open", ({ code, message }) => `${code} ${message}`))',
  )

it(
  'starts for an ordinary user, with programs of root and files of that user',
  async () => {
    expect(obstacle).toBe(undefined)
    const cwd = temporary('nacre-vm-')
    giveToOrdinaryUser(cwd)
    writeFileSync(path.join(cwd, 'of-root'), 'of root\n')
    const home = temporary('nacre-vm-home-')
    giveToOrdinaryUser(home)
    copyFileSync(ownKernel, path.join(home, 'vmlinux'))
    const seen = await printedWithin(
      [...asOrdinaryUser, `HOME=${home}`],
      { kernel: path.join(home, 'vmlinux'), emulate: true, memory: '1g', cwd, network: { allow: [] } },
      `const sandbox = await open()
       const run = async (command) => console.log((await sandbox.exec(command)).stdout.trim())
       await run('node -p 6*7')
       await run('echo own > own && cat own of-root')
       await run('id -u; touch /etc/hostname && rm /usr/bin/yes && ls /usr/bin/yes 2>&1 | tail -c 10')
       await run('cat /etc/shadow')
       await run('curl -sS http://other.invalid/ | grep -o other.invalid:80')
       await sandbox.destroy()`,
    )
    expect(seen).toBe('42\nown\nof root\n0\ndirectory\n\nother.invalid:80\n')
    expect(statSync(path.join(cwd, 'own')).uid).toBe(ordinaryUser)
    expect(existsSync('/usr/bin/yes')).toBe(true)
  },
  BOOT_MS,
)

describe.each([
  { user: 'root', words: ['env'] },
  { user: 'an ordinary user', words: asOrdinaryUser },
])('a machine of $user', ({ words }) => {
  it(
    'shows no secret that is new or was replaced, and what else changes in a home',
    async () => {
      const [home, cwd] = ['home', 'project'].map((name) => temporary(`nacre-vm-${name}-`, '/var/tmp')) as [
        string,
        string,
      ]
      for (const name of ['.ssh', '.config/git', 'data'])
        mkdirSync(path.join(home, name), { recursive: true })
      for (const name of ['.ssh/key', '.npmrc']) writeFileSync(path.join(home, name), 'k7f3-value')
      for (const name of ['.bashrc', '.config/git/ignore', 'data/old'])
        writeFileSync(path.join(home, name), `${name}\n`)
      symlinkSync('data/old', path.join(home, 'link'))
      copyFileSync(ownKernel, path.join(home, 'vmlinux'))
      execFileSync('chown', ['-R', String(ordinaryUser ?? process.getuid?.()), home, cwd])
      const seen = await printedWithin(
        [...words, `HOME=${home}`],
        { kernel: path.join(home, 'vmlinux'), emulate: true, memory: '1g', cwd },
        `const { mkdirSync, renameSync, writeFileSync } = await import('node:fs')
         const { HOME } = process.env
         const sandbox = await open()
         const put = (name) => writeFileSync(HOME + '/' + name, 'k7f3-value')
         put('.new')
         renameSync(HOME + '/.new', HOME + '/.npmrc')
         renameSync(HOME + '/.ssh', HOME + '/old')
         for (const name of ['.ssh', '.aws', '.config/gh', '.m2', 'data/new']) mkdirSync(HOME + '/' + name)
         for (const name of ['.ssh/key', '.aws/key', '.config/gh/key', '.config/git/credentials', '.pgpass', '.m2/settings.xml']) put(name)
         const run = async (command) => console.log((await sandbox.exec(command)).stdout.trim())
         await run('mkdir /run/raw && mount -t virtiofs -o ro root /run/raw')
         await run('cd ~; cat .bashrc .config/git/ignore link')
         await run('ls ~/data')
         await run('find ~ /etc -xdev 2>&1 >/dev/null | grep -i loop')
         await run('grep -rs "k7f3-[v]alue" ~ /run/raw' + HOME)
         await run('for i in 1 2 3 4 5 6 7 8 9; do cat ~/.npmrc ~/.pgpass ~/.ssh/key ~/.aws/key ~/.config/g*/* /run/raw/etc/shadow; done 2>/dev/null | grep -e value -e :')
         await sandbox.destroy()`,
      )
      expect(seen).toBe('\n.bashrc\n.config/git/ignore\ndata/old\nnew\nold\n\n\n\n')
    },
    BOOT_MS,
  )
})

it(
  'serves an ordinary user: many files, a project in a mount to read only, a mount of what is hidden, mount(8)',
  async () => {
    expect(obstacle).toBe(undefined)
    const top = temporary('nacre-vm-')
    // Not in /tmp, which the guest has itself.
    const home = mkdtempSync('/var/tmp/nacre-vm-home-')
    onTestFinished(() => rmSync(home, { recursive: true }))
    const cwd = path.join(top, 'project')
    for (const directory of [cwd, path.join(home, '.aws')]) mkdirSync(directory)
    for (let at = 0; at < 5000; at++) {
      if (at % 200 === 0) mkdirSync(path.join(cwd, `${at / 200}`))
      writeFileSync(path.join(cwd, `${Math.floor(at / 200)}/${at}`), 'x')
    }
    writeFileSync(path.join(top, 'beside'), 'beside')
    writeFileSync(path.join(home, '.aws/config'), 'named')
    writeFileSync(path.join(home, '.npmrc'), 'secret')
    copyFileSync(ownKernel, path.join(home, 'vmlinux'))
    giveToOrdinaryUser(home)
    execFileSync('chown', ['-R', `${ordinaryUser}`, top])
    const mounts = [top, path.join(home, '.aws')].map((source) => ({ source, readOnly: true }))
    const words = ['env', '--unset=TZ', 'prlimit', '--nofile=1024:3000', '--']
    const seen = await printedWithin(
      [...words, ...asOrdinaryUser, `HOME=${home}`],
      { kernel: path.join(home, 'vmlinux'), emulate: true, memory: '1g', cwd, mounts },
      `const sandbox = await open()
       const run = async (command) => console.log((await sandbox.exec(\`{ \${command}; } 2>&1\`)).stdout.trim())
       await run('cat */* | wc -c; find . -type f -size +0 | wc -l; echo written > new; cat new')
       await run('cat ../beside; echo x > ../beside; echo; cat ~/.aws/config; echo x > ~/.aws/config; cat ~/.npmrc')
       await run('mount -t tmpfs none /mnt && getent hosts nacre | tr -s " "')
       await run('stat -f -c %i /tmp /run /dev/shm /var/lib/nacre | sort -u | wc -l')
       await run('echo TZ $TZ \${TZ-unset}')
       await sandbox.destroy()`,
    )
    expect(seen).toMatch(
      /^5000\n5000\nwritten\nbeside.*Read-only file system\n\nnamed.*Read-only file system\ncat: .*\.npmrc: No such file or directory\n127\.0\.0\.1 nacre\n1\nTZ unset\n$/,
    )
  },
  BOOT_MS,
)

it(
  'opens on the command line, also twice for one project',
  async () => {
    const cwd = temporary('nacre-vm-')
    const cli = path.join(path.dirname(path.dirname(__dirname)), 'dist/cli/main.js')
    const run = async (command: string) => {
      const words = [cli, 'exec', '--vm', '--emulate', '--kernel', kernel, '--cwd', cwd, command]
      return (await promisify(execFile)(process.execPath, words)).stdout
    }
    const command = (own: string, other: string) =>
      `touch ${own}; until [ -e ${other} ]; do sleep 0.1; done; uname -r; exit 0`
    const [one, two] = await Promise.all([run(command('a', 'b')), run(command('b', 'a'))])
    expect([one, two].every((release) => kernel.includes(release.trim()) && release !== '')).toBe(true)
  },
  2 * BOOT_MS,
)

describe('without what it needs', () => {
  const refusal = async (options: EngineOptions) => {
    const error = await rejectionOf(machine(temporary('nacre-vm-'), options))
    return error as Error & { code: string }
  }

  it('names a kernel that cannot be used', async () => {
    const place = temporary('nacre-vm-')
    writeFileSync(path.join(place, 'kernel'), 'text')
    for (const kernel of [path.join(place, 'missing'), path.join(place, 'kernel')])
      expect(await refusal({ kernel })).toMatchObject({
        code: 'VM_UNAVAILABLE',
        message: expect.stringMatching(
          /no-kernel: .*install @nacre\/kernel-x64, or give the path of a kernel/,
        ),
      })
  })

  it('does not emulate a missing device', async () => {
    const devices =
      'mount -t tmpfs none /dev && mknod /dev/null c 1 3 && mknod /dev/urandom c 1 9 && exec "$@"'
    const seen = await refusalWithin(['unshare', '--mount', 'sh', '-c', devices, 'sh'], { kernel })
    expect(seen).toMatch(/^VM_UNAVAILABLE .*no-kvm: .*\/dev\/kvm/)
  })

  it('names a machine that allows no namespaces', async () => {
    const without =
      'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all "$@"'
    const words = ['unshare', '--user', '--map-root-user', 'sh', '-c', without, 'sh']
    expect(await refusalWithin(words, { kernel, emulate: true })).toMatch(/^VM_UNAVAILABLE .*no-namespaces: /)
  })

  it('shows what a kernel printed that does not start', async () => {
    const place = temporary('nacre-vm-')
    // An ELF file without code.
    writeFileSync(path.join(place, 'kernel'), Buffer.concat([Buffer.from('\x7fELF'), Buffer.alloc(4096)]))
    expect(await refusal({ kernel: path.join(place, 'kernel') })).toMatchObject({
      code: 'VM_UNAVAILABLE',
      message: expect.stringContaining('boot-failed: '),
    })
  })

  it('refuses options that cannot be', async () => {
    const cases: Array<[EngineOptions, string]> = [
      [{ image: 'node:22' }, 'image'],
      [{ grace: 0 }, 'grace'],
      [{ network: 'host' }, 'network'],
      [{ cpus: 1.5 }, 'cpus'],
      [{ memory: '1m' }, 'memory'],
      [{ where: 'here' }, 'where'],
    ]
    for (const [options, name] of cases)
      expect(await refusal(options)).toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringContaining(name),
      })
    expect(await rejectionOf(openSandbox({ kernel }))).toMatchObject({ code: 'INVALID_OPTION' })
  })
})

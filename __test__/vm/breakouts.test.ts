/**
 * Break-out attempts in a virtual machine: those of __test__/isolation against the isolation of a session in the guest, and those of
 * the guest's root against the machine. Run by `npm run test:vm`.
 */
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { type AddressInfo, createServer, type Server } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { type EngineSandbox, openSandbox } from 'nacre/engine'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rejectionOf } from '../helpers/thrown.js'
import { type Attempt, attempts } from '../isolation/attempts/index.js'
import { Programs } from '../isolation/tiers.js'

/** From scripts/test-vm.mjs. */
const kernel = process.env.NACRE_TEST_OWN_KERNEL ?? ''
const BOOT_MS = 240_000
/** What no attempt may print. */
const SECRET = 'a secret of the machine'

const newPlace = () => mkdtempSync('/var/tmp/nacre-vm-')

const open = (cwd: string, mounts: string[] = []): Promise<EngineSandbox> =>
  openSandbox({
    engine: 'vm',
    emulate: true,
    memory: '1g',
    kernel,
    cwd,
    mounts: mounts.map((source) => ({ source, readOnly: true })),
  })

describe('a session in the guest', () => {
  let copy: Programs
  let place: string
  let sandbox: EngineSandbox

  interface Outcome {
    escaped: boolean
    failed?: string
  }

  /** Without those of durable jobs, and without calls that Linux 6.1 lacks: fchmodat2(2), and O_TMPFILE on an overlay. */
  const list = attempts.filter(({ name }: Attempt) => !/durable job|fchmodat2|O_TMPFILE/.test(name))

  beforeAll(async () => {
    copy = new Programs('runner.mjs', 'servers.pl')
    place = newPlace()
    sandbox = await open(place, [copy.directory])
  }, BOOT_MS)

  afterAll(async () => {
    await sandbox?.destroy()
    copy?.remove()
    rmSync(place, { recursive: true })
  })

  /** Makes attempts beside the server of the guest, with the same rights. */
  async function run(task: object): Promise<Record<string, Outcome>> {
    const files = ['runner.mjs', 'dist/index.js'].map((name) => path.join(copy.directory, name))
    const { NACRE_NATIVE = '' } = process.env
    const { stdout, stderr } = await sandbox.exec(['node', ...files], {
      input: JSON.stringify({ by: 'session', hasMounts: true, ...task }),
      env: { NACRE_NATIVE, HOME: '/var/tmp' },
    })
    if (!stdout.startsWith('{')) throw new Error(`the attempts were not made: ${stderr}`)
    return JSON.parse(stdout)
  }

  it(
    'is escaped from without isolation',
    async () => {
      const working = list.filter(({ works }) => works)
      const outcomes = await run({ attempts: working })
      const harmless = working.filter(({ name }) => !outcomes[name]?.escaped)
      expect(harmless.map(({ name }) => `${name}: ${JSON.stringify(outcomes[name])}`)).toEqual([])
    },
    4 * BOOT_MS,
  )

  it(
    'is not escaped from with isolation, by root of the guest',
    async () => {
      const isolation = {
        filesystem: { write: ['.'], protect: ['.git/hooks', '.git/config'] },
        network: 'none',
        processes: 'own',
      }
      const outcomes = await run({ attempts: list, isolation })
      const bad = list.filter(({ name }) => outcomes[name]?.escaped !== false || outcomes[name]?.failed)
      expect(bad.map(({ name }) => `${name}: ${JSON.stringify(outcomes[name])}`)).toEqual([])
    },
    4 * BOOT_MS,
  )
})

describe('the guest', () => {
  let place: string
  let server: Server
  let sandbox: EngineSandbox
  const { HOME } = process.env
  const at = (...names: string[]) => path.join(place, ...names)

  beforeAll(async () => {
    place = newPlace()
    for (const name of ['project', 'read-only', 'outside', 'home', 'home/.ssh']) mkdirSync(at(name))
    writeFileSync(at('project/file'), 'of the project')
    writeFileSync(at('read-only/file'), 'read only')
    writeFileSync(at('outside/file'), 'outside')
    writeFileSync(at('home/.ssh/key'), SECRET)
    process.env.HOME = at('home')
    server = createServer((socket) => socket.end(SECRET))
    await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve))
    sandbox = await open(at('project'), [at('read-only')])
  }, BOOT_MS)

  afterAll(async () => {
    await sandbox?.destroy()
    process.env.HOME = HOME
    server?.close()
    rmSync(place, { recursive: true })
  })

  /**
   * Runs a command where the shares of both file servers are mounted as they are: $ROOT, and in it $OUT and $KEY; $PROJECT and
   * $READ. $MACHINE and $PORT lead to a server of the machine.
   */
  async function run(command: string): Promise<string> {
    const addresses = Object.values(os.networkInterfaces()).flatMap((all) => all ?? [])
    const { all } = await sandbox.exec(
      `
      ROOT=/tmp/root
      for share in root places; do
        mkdir -p /tmp/$share; mountpoint -q /tmp/$share || mount -t virtiofs $share /tmp/$share
      done
      for directory in /tmp/places/*; do
        case $(cat $directory/file 2>/dev/null) in
          'of the project') PROJECT=$directory ;;
          'read only') READ=$directory ;;
        esac
      done
      OUT=$ROOT${at('outside')} KEY=$ROOT${at('home/.ssh/key')} KEY_INODE=${statSync(at('home/.ssh/key')).ino}
      PORT=${(server.address() as AddressInfo).port}
      MACHINE=${addresses.find(({ family, internal }) => family === 'IPv4' && !internal)?.address ?? '127.0.0.1'}
      export ROOT PROJECT READ OUT KEY KEY_INODE PORT MACHINE
      ${command}`,
      { timeout: 120_000 },
    )
    return all
  }

  /** The files of the machine that no attempt may change. */
  const unchangeable = () =>
    ['read-only', 'outside', 'home', ''].map((name) => [
      statSync(at(name)).mode,
      ...readdirSync(at(name), { withFileTypes: true }).map((entry) => [
        entry.name,
        lstatSync(at(name, entry.name)).mode,
        entry.isFile() ? readFileSync(at(name, entry.name), 'utf8') : undefined,
      ]),
    ])

  it('has the rights that the attempts need', async () => {
    const shown = await run(`
      cat $PROJECT/file $READ/file $OUT/file; echo
      id -u; grep CapEff /proc/self/status
      echo x > $PROJECT/new && mv $PROJECT/new $PROJECT/newer && ln $PROJECT/newer $PROJECT/linked && rm $PROJECT/linked && echo written
      cp /bin/true /tmp/true && chmod 4755 /tmp/true && stat -c %a /tmp/true && mknod /tmp/null c 1 3 && echo made
      perl -MSocket -e 'socket(my $s, AF_INET, SOCK_STREAM, 0); bind($s, sockaddr_in(7777, INADDR_ANY)); listen($s, 1);
        unless (fork) { sleep 1; exec "bash", "-c", "cat < /dev/tcp/127.0.0.1/7777" } accept(my $c, $s); print $c "connected\\n"; close $c; wait'`)
    expect(shown).toBe(
      'of the projectread onlyoutside\n0\nCapEff:\t000001ffffffffff\nwritten\n4755\nmade\nconnected\n',
    )
    expect(readFileSync(at('project/newer'), 'utf8')).toBe('x\n')
  })

  /** With what an attempt prints that succeeds, if it changes nothing. */
  const tries: Record<string, [command: string, success?: RegExp]> = {
    'write outside of the project': [
      'mount -o remount,rw $ROOT; echo x > $OUT/new; echo x > $OUT/file; truncate -s 0 $OUT/file; rm -f $OUT/file; chmod 777 $OUT; ' +
        'setfattr -n user.x -v y $OUT/file; ln $OUT/file $OUT/linked; mkdir $OUT/directory; touch $ROOT/new',
    ],
    'write to a mount that can only be read': [
      'mount -o remount,rw /tmp/places; echo x > $READ/new; echo x > $READ/file; truncate -s 0 $READ/file; rm -f $READ/file; ' +
        'chmod 777 $READ; touch $READ/file; mv $READ/file $READ/other; mv $READ /tmp/places/gone; rmdir $READ; touch /tmp/places/new',
    ],
    'move or link what can only be read': [
      'mv $READ/file $PROJECT/taken; ln $READ/file $PROJECT/linked && echo x > $PROJECT/linked; mv $OUT/file $PROJECT/taken; ' +
        'ln $OUT/file $PROJECT/linked; mv $PROJECT $OUT; mv $PROJECT/file $READ',
    ],
    'exchange files by renameat2(2)': [
      `perl -e 'for my $other ("$ENV{READ}/file", "$ENV{OUT}/file", "$ENV{OUT}") { for my $flags (0, 1, 2, 4) {
        syscall(316, -100, "$ENV{PROJECT}/file", -100, $other, $flags); syscall(316, -100, $other, -100, "$ENV{PROJECT}/taken", $flags) } }'`,
    ],
    'leave a share upwards': [
      'ls -d $ROOT/../proc/1/../../../var/tmp/nacre-vm-*/home/.ssh/key /tmp/places/../home /tmp/places/../../home/.ssh/key $PROJECT/../../home 2>/dev/null; ' +
        'echo x > $PROJECT/../outside; echo x > $PROJECT/../../outside/file; cat $KEY $ROOT/../$KEY',
      /^\//m,
    ],
    'follow its own links on the machine': [
      `ln -s ${'$'}{OUT#$ROOT} $PROJECT/way; ln -s ../outside $PROJECT/near; echo x > $PROJECT/way/new; echo x > $PROJECT/near/new; ` +
        'echo x > $PROJECT/near/file; cat $PROJECT/../home/.ssh/key; rm -f $PROJECT/way $PROJECT/near',
    ],
    'open files by handles that it makes': [
      `perl -e 'for my $mount ($ENV{ROOT}, "/tmp/places") { opendir(my $directory, $mount); for my $node (1 .. 500, $ENV{KEY_INODE}) { for my $generation (0, 1) {
        my $handle = pack("LlLLL", 12, 0x81, $node >> 32, $node & 0xffffffff, $generation); my $fd = syscall(304, fileno($directory), $handle, 0);
        next if $fd < 0; open(my $file, "<&=", $fd) or next; read($file, my $text, 100); print $text } }'`,
    ],
    'read secrets': [
      'cat $KEY $ROOT/etc/shadow $ROOT/etc/gshadow; find $ROOT/root/.ssh $ROOT/root/.aws -type f; find $(dirname $KEY) -type f',
      /[:/]\$|^\//m,
    ],
    'see processes, devices and sockets of the machine': [
      'find $ROOT/proc $ROOT/dev $ROOT/sys $ROOT/run $ROOT/tmp -mindepth 1; cat /proc/*/cmdline | tr "\\0" "\\n" | grep -e [q]emu -e [v]irtiofsd',
      /./,
    ],
    'leave devices': [
      'mknod $PROJECT/disk b 254 0; mknod $PROJECT/mem c 1 1; mknod $PROJECT/null c 1 3; cp -a /dev/null $PROJECT/null',
    ],
    'leave programs with the rights of their owner': [
      'for mode in 4755 2755 6755; do cp /bin/true $PROJECT/p$mode; chmod $mode $PROJECT/p$mode; install -m $mode /bin/true $PROJECT/i$mode; done; ' +
        'mkdir $PROJECT/d; chmod 2777 $PROJECT/d; cp -p /tmp/true $PROJECT/preserved; tar -C /tmp -cp true | tar -C $PROJECT -xp; ' +
        `perl -e 'syscall(90, "$ENV{PROJECT}/p4755", 04755); syscall(268, -100, "$ENV{PROJECT}/p4755", 04755); syscall(452, -100, "$ENV{PROJECT}/p4755", 04755, 0)'`,
    ],
    'connect to the machine': [
      'for host in 127.0.0.1 10.0.2.2 192.168.122.1 $MACHINE; do timeout 5 bash -c "cat < /dev/tcp/$host/$PORT" 2>/dev/null; done; ls /sys/class/net',
      /^(?!lo$)./m,
    ],
    'make a device that leads out': [
      'for kind in veth macvlan ipvlan bridge; do ip link add out0 type $kind 2>/dev/null; done; ip link add out0 type dummy; ' +
        'ip addr add 10.0.2.15/24 dev out0; ip link set out0 up; ip route add default via 10.0.2.2; ' +
        'timeout 5 bash -c "cat < /dev/tcp/$MACHINE/$PORT"; ip link del out0',
    ],
    'connect by sockets of virtual machines': [
      `perl -e 'for my $cid (0 .. 3) { for my $port (1, 22, 80, 1024, $ENV{PORT}) { socket(my $socket, 40, 1, 0) or exit;
        connect($socket, pack("SSLLL", 40, 0, $port, $cid, 0)) and print "connected\\n" } }'`,
      /connected/,
    ],
    'write to devices of the monitor': [
      `perl -e 'exit if syscall(172, 3) < 0; open(my $ports, "+<", "/dev/port") or exit;
        for my $at (0x501, 0x510, 0x511, 0xcf8, 0xcfc) { sysseek($ports, $at, 0); syswrite($ports, "\\x01"); sysread($ports, my $byte, 1) }'; ` +
        'for size in 0 16 1024 2048 3840; do dd if=/dev/mem bs=1M skip=$size count=1 2>/dev/null | grep -a -o "a secret of the [m]achine"; done; ' +
        'for device in /dev/vport* /dev/hvc1; do timeout 5 head -c 100000 /dev/urandom > $device; done',
    ],
    'load another kernel or module': [
      'kexec -l /boot/vmlinuz* && echo loaded; insmod $PROJECT/file && echo loaded; modprobe vfio-pci && echo loaded',
      /loaded/,
    ],
  }

  it.each(Object.entries(tries))(
    'cannot %s',
    async (_, [command, success]) => {
      const before = unchangeable()
      const shown = (await run(`exec 2>/dev/null\n${command}`)).trim()
      expect(shown).not.toContain(SECRET)
      if (success !== undefined) expect(shown).not.toMatch(success)
      expect(unchangeable()).toEqual(before)
      const left = readdirSync(at('project'), { recursive: true, encoding: 'utf8' })
      const rights = (name: string) => lstatSync(at('project', name))
      expect(left.filter((name) => rights(name).isFile() && rights(name).mode & 0o6000)).toEqual([])
      expect(left.filter((name) => rights(name).isCharacterDevice() || rights(name).isBlockDevice())).toEqual(
        [],
      )
      expect((await sandbox.exec('echo alive')).stdout).toBe('alive\n')
    },
    BOOT_MS,
  )

  it(
    'ends only its own sandbox with its server',
    async () => {
      const lost = rejectionOf(sandbox.exec('kill -9 $(pgrep -f inside.mjs)'))
      expect(await lost).toMatchObject({ code: 'SANDBOX_LOST' })
      expect(readFileSync(at('home/.ssh/key'), 'utf8')).toBe(SECRET)
    },
    BOOT_MS,
  )
})

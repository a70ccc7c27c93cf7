import { conforms } from '../helpers/conformance.js'

const every = Buffer.from(Array.from({ length: 256 }, (_, index) => index))
const octal = (bytes: Uint8Array) =>
  Array.from(bytes, (byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')
const bytes = { encoding: 'buffer' } as const

conforms('output', [
  {
    name: 'without a line end',
    steps: [
      { run: 'printf a', out: 'a' },
      { run: 'printf "\\n\\n"', out: '\n\n' },
      { run: 'printf "a\\n\\n"; printf b >&2', out: 'a\n\n', err: 'b' },
    ],
  },
  { name: 'nothing', steps: [{ run: 'printf ""' }, { run: ':' }] },
  {
    name: 'NUL, carriage returns and colours',
    steps: [{ run: "printf 'a\\0b\\r\\nc\\e[1mx\\e[0m'", out: 'a\0b\r\nc\x1b[1mx\x1b[0m' }],
  },
  {
    name: 'bytes of every value',
    steps: [{ run: `printf '${octal(every)}'`, options: bytes, out: every, err: new Uint8Array() }],
  },
  {
    name: 'what is no UTF-8',
    steps: [
      { run: "printf 'a\\xffb\\xc3'", out: 'a\ufffdb\ufffd' },
      {
        run: "printf 'a\\xffb\\xc3'",
        options: bytes,
        out: Buffer.from([97, 255, 98, 195]),
        err: new Uint8Array(),
      },
      { run: "printf '\\xed\\xa0\\x80'", out: '\ufffd\ufffd\ufffd' },
      { run: "printf '\\xef\\xbb\\xbfa'", out: '\ufeffa' },
    ],
  },
  {
    name: 'characters split over writes',
    steps: [
      {
        run: "printf '\\xe2'; printf '\\x82'; /bin/echo -n $'\\xac'; printf '\\xf0\\x9f'; (printf '\\x8e\\x89')",
        out: '€🎉',
      },
    ],
  },
  {
    name: 'a line of a megabyte',
    steps: [{ run: 'head -c 1048576 /dev/zero | tr "\\0" x; echo', out: `${'x'.repeat(1_048_576)}\n` }],
  },
  {
    name: '100 000 lines on both streams',
    steps: [
      {
        run: 'seq 100000 | tee /dev/stderr',
        out: Array.from({ length: 100_000 }, (_, index) => `${index + 1}\n`).join(''),
        err: Array.from({ length: 100_000 }, (_, index) => `${index + 1}\n`).join(''),
      },
    ],
  },
  {
    name: 'stderr apart',
    steps: [
      { run: 'echo e >&2', err: 'e\n' },
      { run: 'ls /no/such', code: 2, err: "ls: cannot access '/no/such': No such file or directory\n" },
    ],
  },
  {
    name: 'of pipelines, subshells and functions',
    steps: [{ run: 'f() { echo "f $1"; }; f 1 | (cat; f 2) | tac; { f 3; } | cat', out: 'f 2\nf 1\nf 3\n' }],
  },
  {
    name: 'of a child that lives longer than its parent',
    steps: [
      { run: '(sleep 0.02; echo late) & wait', out: 'late\n' },
      { run: 'bash -c "(echo a) & wait; echo b"', out: 'a\nb\n' },
    ],
  },
  {
    name: 'what looks like messages of the engine',
    steps: [
      {
        run: "printf '\\1R\\0000\\0himBH\\0/\\0\\0\\0\\2\\n'; printf '\\1X\\0\\0\\2\\n' >&2",
        out: '\x01R\x000\0himBH\0/\0\0\0\x02\n',
        err: '\x01X\0\0\x02\n',
      },
      { run: 'echo on', out: 'on\n' },
    ],
  },
  {
    name: 'the last line end taken off',
    steps: [
      {
        run: 'printf "a\\n\\n"; printf "b\\r\\n" >&2',
        options: { stripFinalNewline: true },
        out: 'a\n',
        err: 'b',
      },
      { run: 'printf "\\n"', options: { stripFinalNewline: true }, out: '' },
    ],
  },
  {
    name: 'of a command that dies',
    steps: [
      { run: 'echo a; echo b >&2; kill -9 $$', out: 'a\n', err: 'b\n', code: 137, restarted: true },
      { run: 'echo c; exit 3', out: 'c\n', code: 3 },
      {
        run: 'seq 20000; exit 4',
        out: Array.from({ length: 20_000 }, (_, index) => `${index + 1}\n`).join(''),
        code: 4,
      },
      {
        run: 'exec seq 20000',
        out: Array.from({ length: 20_000 }, (_, index) => `${index + 1}\n`).join(''),
        restarted: true,
      },
    ],
  },
])

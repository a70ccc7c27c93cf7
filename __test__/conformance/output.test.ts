import { conforms } from '../helpers/conformance.js'

const every = Buffer.from(Array.from({ length: 256 }, (_, index) => index))
const octal = (bytes: Uint8Array) =>
  Array.from(bytes, (byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')
const bytes = { encoding: 'buffer' } as const

conforms('output', {
  'without a line end': [
    { run: 'printf a', out: 'a' },
    { run: 'printf "\\n\\n"', out: '\n\n' },
    { run: 'printf "a\\n\\n"; printf b >&2', out: 'a\n\n', err: 'b' },
  ],
  nothing: [{ run: 'printf ""' }, { run: ':' }],
  'NUL, carriage returns and colours': [
    { run: "printf 'a\\0b\\r\\nc\\e[1mx\\e[0m'", out: 'a\0b\r\nc\x1b[1mx\x1b[0m' },
  ],
  'bytes of every value': [
    { run: `printf '${octal(every)}'`, options: bytes, out: every, err: new Uint8Array() },
  ],
  'what is no UTF-8': [
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
  'characters split over writes': [
    {
      run: "printf '\\xe2'; printf '\\x82'; /bin/echo -n $'\\xac'; printf '\\xf0\\x9f'; (printf '\\x8e\\x89')",
      out: '€🎉',
    },
  ],
  'a line of a megabyte': [
    { run: 'head -c 1048576 /dev/zero | tr "\\0" x; echo', out: `${'x'.repeat(1_048_576)}\n` },
  ],
  '100 000 lines on both streams': [
    {
      run: 'seq 100000 | tee /dev/stderr',
      out: Array.from({ length: 100_000 }, (_, index) => `${index + 1}\n`).join(''),
      err: Array.from({ length: 100_000 }, (_, index) => `${index + 1}\n`).join(''),
    },
  ],
  'stderr apart': [
    { run: 'echo e >&2', err: 'e\n' },
    { run: 'ls /no/such', code: 2, err: "ls: cannot access '/no/such': No such file or directory\n" },
  ],
  'of pipelines, subshells and functions': [
    { run: 'f() { echo "f $1"; }; f 1 | (cat; f 2) | tac; { f 3; } | cat', out: 'f 2\nf 1\nf 3\n' },
  ],
  'of a child that lives longer than its parent': [
    { run: '(sleep 0.02; echo late) & wait', out: 'late\n' },
    { run: 'bash -c "(echo a) & wait; echo b"', out: 'a\nb\n' },
  ],
  'what looks like messages of the engine': [
    {
      run: "printf '\\1R\\0000\\0himBH\\0/\\0\\0\\0\\2\\n'; printf '\\1X\\0\\0\\2\\n' >&2",
      out: '\x01R\x000\0himBH\0/\0\0\0\x02\n',
      err: '\x01X\0\0\x02\n',
    },
    { run: 'echo on', out: 'on\n' },
  ],
  'the last line end taken off': [
    {
      run: 'printf "a\\n\\n"; printf "b\\r\\n" >&2',
      options: { stripFinalNewline: true },
      out: 'a\n',
      err: 'b',
    },
    { run: 'printf "\\n"', options: { stripFinalNewline: true }, out: '' },
  ],
  'of a command that dies': [
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
})

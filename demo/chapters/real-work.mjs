/** A small package made, tested and committed, one command after the other in one shell. */

const WRITE_CODE = `cat > sum.mjs <<'END'
export function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0)
}
END`

const WRITE_TEST = `cat > sum.test.mjs <<'END'
import assert from 'node:assert'
import test from 'node:test'
import { sum } from './sum.mjs'

test('adds', () => assert.equal(sum([1, 2, 3]), 6))
test('of nothing is 0', () => assert.equal(sum([]), 0))
END`

export async function realWork(story, sandbox) {
  story.title('One shell, many calls: a package is made, tested and committed')
  await story.run(sandbox, 'mkdir adder && cd adder && git init -q -b main')
  await story.run(
    sandbox,
    'export GIT_AUTHOR_NAME=demo GIT_AUTHOR_EMAIL=demo@localhost GIT_COMMITTER_NAME=demo GIT_COMMITTER_EMAIL=demo@localhost',
  )
  await story.run(sandbox, 'commit() { git add -A && git commit -q -m "$1" && git log --oneline | wc -l; }')
  await story.run(sandbox, `echo '{ "name": "adder", "version": "1.0.0", "type": "module" }' > package.json`)
  await story.run(sandbox, WRITE_CODE)
  await story.run(sandbox, WRITE_TEST)

  const tests = await story.run(sandbox, 'node --test --test-reporter=tap 2>&1 | grep -E "^# (pass|fail)"')
  story.check(
    'the tests pass, in the directory of the first call',
    tests.stdout.includes('# pass 2'),
    tests.all,
  )

  const commit = await story.run(sandbox, `commit 'Add numbers'`)
  story.check('the function commits, with the exported name', commit.stdout.trim() === '1', commit.all)

  await story.run(sandbox, `sed -i 's/total + number/total - number/' sum.mjs`)
  const broken = await story.run(
    sandbox,
    'node --test --test-reporter=tap | grep -E "^# (pass|fail)"; git diff --stat',
  )
  story.check('a broken change fails its test', broken.stdout.includes('# fail 1'), broken.all)
  const mended = await story.run(sandbox, 'git checkout -q sum.mjs && node --test > test.log')
  story.check('and is taken back', mended.exitCode === 0, mended.all)
}

/**
 * Durations, timeouts and grace times come from the monotonic clock.
 *
 * The system's clock is not ours to set, and a time namespace has none of its own for the time of day. So the host gets
 * a library loaded in front of the C library, whose time of day jumps by hours at every look.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { compile, type Library } from '../helpers/preload.js'

const jumpingClock = `
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long jump(void) {
  static unsigned looks;
  return ((long)(__atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED) % 7) - 3) * 3600;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += jump();
  return result;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec exact;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *now) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (now) *now = exact.tv_sec;
  return exact.tv_sec;
}
`

const program = (before: string) => `
  const looks = Array.from({ length: 20 }, () => Date.now())
  ${before}
  const sandbox = new Sandbox({ cwd: '/tmp' })
  const timed = async (command, options) => {
    const begun = performance.now()
    const result = await sandbox.exec(command, options).catch((error) => error.result)
    const { duration, timestamp, timedOut, exitCode, stdout } = result
    return { took: performance.now() - begun, duration, timedOut, stdout, exitCode, dated: !Number.isNaN(Date.parse(timestamp)) }
  }
  // A command that TERM reaches before it ignores TERM ends immediately: it is run again with more time.
  const stubborn = async () => {
    const command = "trap '' TERM; bash -c 'trap \\"\\" TERM; echo up; sleep 60; sleep 60'"
    for (let timeout = 100; ; timeout *= 2) {
      const end = await timed(command, { timeout, forceKillAfterDelay: 200 })
      if (end.stdout === 'up\\n' || timeout > 2000) return { ...end, timeout }
    }
  }
  const main = async () => {
    const span = Math.max(...looks) - Math.min(...looks)
    const ends = {
      short: await timed('true'),
      plain: await timed('sleep 0.2', { timeout: 5000 }),
      timeout: await timed('sleep 60', { timeout: 200 }),
      grace: await stubborn(),
    }
    await sandbox.destroy()
    print('RESULT ' + JSON.stringify({ span, ...ends }))
  }
  main()
`

let library: Library | undefined

beforeAll(() => {
  library = compile(jumpingClock)
})

afterAll(() => library?.remove())

async function expectTrueTimes(before: string, env: Record<string, string> = {}): Promise<number> {
  const host = startHost(program(before), [], env)
  expect(await host.ended(), host.output()).toBe(0)
  await expectGone(host.tag)
  const { span, ...ends } = JSON.parse(/RESULT (.*)/.exec(host.output())?.[1] ?? '{}')
  const least = { short: 0, plain: 200, timeout: 200, grace: ends.grace.timeout + 200 }
  for (const [name, ms] of Object.entries(least)) {
    const { took, duration, dated } = ends[name]
    for (const measured of [took, duration]) {
      expect(measured, name).toBeGreaterThanOrEqual(ms)
      expect(measured, name).toBeLessThan(ms + 60_000)
    }
    expect(dated, name).toBe(true)
  }
  expect([ends.short, ends.plain]).toMatchObject(Array(2).fill({ exitCode: 0, timedOut: false }))
  expect([ends.timeout, ends.grace]).toMatchObject(Array(2).fill({ timedOut: true }))
  return span
}

describe('times are true', () => {
  it('while the time of day jumps by hours', async () => {
    const span = await expectTrueTimes('', { LD_PRELOAD: library?.file ?? '' })
    expect(span).toBeGreaterThan(3_600_000)
  })

  it('while the host has replaced Date', async () => {
    const fake = `
      const RealDate = Date
      let now = 0
      globalThis.Date = class extends RealDate { static now() { return (now -= 3600_000) } }
    `
    expect(await expectTrueTimes(fake)).toBeLessThan(60_000)
  })
})

/** Waiting for the end of programs that sandboxd has started. */
import * as proc from '../../../__test__/helpers/proc.js'
import { until } from '../../../__test__/helpers/until.js'
import type { Place } from './place.js'

/** The programs of this name that run in the sandbox. */
export function running(place: Place, name: RegExp): string[] {
  return proc
    .descendants(process.pid)
    .filter(({ pid }) => proc.carries(place.workplace.tag, pid))
    .map(proc.show)
    .filter((shown) => name.test(shown))
}

/** Waits until none of them runs. */
export async function ended(place: Place, name = /\b(sleep|yes|touch|cat)\b/): Promise<void> {
  await until(
    () => (running(place, name).length === 0 ? true : undefined),
    () => running(place, name).join('\n'),
  )
}

/** Waits until so many of them run. */
export async function begun(place: Place, name: RegExp, count = 1): Promise<void> {
  await until(
    () => (running(place, name).length >= count ? true : undefined),
    () => `${running(place, name).length} run`,
  )
}

/** The length of a job's output, by reads of single bytes: no API of jobs gives it, and the output may be gigabytes. */
import type { JobWorkerOptions } from './public.js'

/** The length, if it is at least `least`. A few calls when little was printed since, one when nothing was. */
export async function outputSize(
  jobs: JobWorkerOptions['jobs'],
  jobId: string,
  least: number,
): Promise<number> {
  const has = async (offset: number): Promise<boolean> => {
    const { bytesFetched } = await jobs.read(jobId, offset, { maxBytes: 1, encoding: 'buffer' })
    return bytesFetched > 0
  }
  if (!(await has(least))) return least
  let [present, absent] = [least, least + 1]
  for (let step = 1; await has(absent); step *= 2) {
    present = absent
    absent += step
  }
  while (absent - present > 1) {
    const middle = Math.floor((present + absent) / 2)
    if (await has(middle)) present = middle
    else absent = middle
  }
  return absent
}

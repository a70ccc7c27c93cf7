/**
 * Runs one sample of one row, in its own process, and prints it as JSON.
 *
 *   node bench/sample.mjs ROW VARIANT SETTINGS
 */
import { rows } from './rows/all.mjs'

const [row, variant, settings] = process.argv.slice(2)
const sample = await rows[row].measure(variant, JSON.parse(settings))
process.stdout.write(JSON.stringify(sample))

/** Suggestions after an unknown flag or verb. */
import type { OutputConfiguration } from 'commander'
import { nearestName } from '../schema/nearest.js'

const SUGGESTION = /'(-*)(.*)'\n\(Did you mean (?:one of )?(.*)\?\)/s

/** Of what commander suggests, which may be --root for --foo, errors show only the nearest name, if one is near. */
export const nearSuggestions: OutputConfiguration = {
  outputError: (text, write) =>
    write(
      text.replace(SUGGESTION, (_, dashes: string, given: string, names: string) => {
        const nearest = nearestName(
          given,
          names.split(', ').map((name) => name.slice(dashes.length)),
        )
        return `'${dashes}${given}'${nearest === undefined ? '' : `\n(Did you mean ${dashes}${nearest}?)`}`
      }),
    ),
}

/** Secrets and rules for requests of the isolation rules, for the boundary. */

import { loadAddon } from '../../../addon/load.js'
import { crypto } from '../../../base/builtin.js'
import { invalidOption } from '../../../base/errors.js'
import type { NativeIsolation, NativeSecret } from '../../../boundary/index.js'
import type { CheckedPlace, CheckedSecret } from '../../../schema/isolation-rules.js'
import { nameOf } from '../rule-functions.js'

const USUAL: CheckedPlace[] = ['authorization']

/** Draws the placeholders that are not given. `known`: those that the same values have already. */
export function planSecrets(
  secrets: Record<string, CheckedSecret> = {},
  known: readonly NativeSecret[] = [],
): NativeSecret[] {
  return Object.entries(secrets).map(
    ([name, { value: given, hosts, in: places = USUAL, placeholder, refresh, programs = [] }]) => {
      const [value, own] = typeof given === 'string' ? [given, undefined] : ['', nameOf(given)]
      const same = known.find((one) => one.name === name && one.value === value && one.function === own)
      if (known.some((one) => one !== same && one.placeholder === placeholder))
        throw invalidOption(
          `isolation.network.secrets.${name}.placeholder must be another one: it stands for a secret of the sandbox`,
        )
      return {
        name,
        value,
        function: own,
        refresh,
        hosts,
        programs,
        places: places.map(placeText),
        placeholder: placeholder ?? same?.placeholder ?? draw(value),
      }
    },
  )
}

function draw(value: string): string {
  const { placeholder } = loadAddon().addon
  let drawn = value
  while (drawn.includes(value)) drawn = placeholder(value)
  return drawn
}

function placeText(place: CheckedPlace): string {
  if (typeof place === 'string') return place
  return 'header' in place ? `header:${place.header.toLowerCase()}` : `query:${place.query}`
}

/** Rules for requests that the engine can read. Throws OptionError. */
export function planRequests(requests: Record<string, string[]> = {}): NativeIsolation['requests'] {
  for (const [host, rules] of Object.entries(requests)) {
    for (const [index, rule] of rules.entries()) {
      const problem = loadAddon().addon.checkRule(rule)
      if (problem !== null) throw invalidOption(`isolation.network.requests['${host}'][${index}] ${problem}`)
    }
  }
  return Object.entries(requests).map(([host, rules]) => ({ host, rules }))
}

/** Certificates that can be parsed. Throws OptionError. */
export function planAuthorities(authorities: string[] = []): string[] {
  for (const [index, pem] of authorities.entries()) {
    for (const [certificate] of pem.matchAll(/-----BEGIN [^-]+-----[^-]+-----END [^-]+-----/g)) {
      try {
        ;new (crypto().X509Certificate)(certificate)
      } catch {
        throw invalidOption(
          `isolation.network.authorities[${index}] must be certificates as PEM: one of them cannot be read`,
        )
      }
    }
  }
  return authorities
}

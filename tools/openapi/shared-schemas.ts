/** Schemas that several dialects share. */

import { Type } from '@sinclair/typebox'
import { anyObject, type Components, oneOf, optional } from './schema-parts.ts'

export const sharedComponents: Components = {
  CacheControl: Type.Object(
    {
      type: Type.Literal('ephemeral'),
      ttl: optional(oneOf('5m', '1h'), 'How long the provider keeps the prefix. Its default applies without it.'),
    },
    {
      description:
        'A cache breakpoint: the provider may cache the prompt up to and including what carries it. A 1h mark that ' +
        'follows a 5m mark is lowered to 5m, because providers reject that order.',
    },
  ),
  JsonSchema: anyObject('A JSON Schema. It goes to the provider unchanged.'),
}

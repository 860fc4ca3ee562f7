/** The part of the schema for budgets of an organisation. */

import { Type } from '@sinclair/typebox'
import { spendLimits } from '../core/limits.ts'
import { TAG_VALUE } from '../core/tag-value.ts'
import {
  boolean,
  glob,
  integer,
  object,
  oneOf,
  optional,
  optionals,
  pattern,
  TAG_NAME,
  withDefault,
} from './field-types.ts'
import { countFields, spendFields } from './schema-limits.ts'

/** The name of a budget stands in errors, in reports and on command lines. */
const BUDGET_NAME = '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'

/** More budgets than one organisation needs: each is looked at for every request of it. */
const BUDGETS_MAX = 100
const VALUES_MAX = 1000
const EXCEPTIONS_MAX = 10_000

/** The limits of a budget. */
export const budgetLimits = (description: string) =>
  object(
    {
      ...countFields(),
      spend: optional(
        object(
          {
            ...spendFields(spendLimits),
            strict: optional(boolean('Reserves the whole output limit of a request from the start')),
          },
          { description: "Spend limits, in windows of the organisation's time zone", minProperties: 1 },
        ),
      ),
    },
    { description, minProperties: 1 },
  )

export const budgetName = pattern(
  BUDGET_NAME,
  'must be 1 to 64 letters, digits or ._- and begin with a letter or digit',
  'The name of the budget in errors, reports and alerts',
)

const match = object(
  optionals({
    keys: Type.Array(glob, { minItems: 1, description: 'Patterns of the ids of keys' }),
    models: Type.Array(glob, {
      minItems: 1,
      description: 'Patterns of the models that may serve the request. They are compared anew for each candidate',
    }),
    tags: Type.Record(
      Type.String(),
      Type.Array(pattern(TAG_VALUE, 'must be 1 to 64 letters, digits or ._/@:-', 'A value of the tag'), {
        minItems: 1,
        maxItems: VALUES_MAX,
      }),
      { description: 'By the name of a tag: the values, of which the request must have one' },
    ),
  }),
  { description: 'Which requests count: those for which all of this holds. Without it, all' },
)

const budget = object(
  {
    name: budgetName,
    per: optional(
      pattern(
        `^(?:key|model|tag:${TAG_NAME})$`,
        'must be key, model or tag:NAME',
        'What the budget has a counter for: each `key`, each `model`, or each value of a tag (`tag:NAME`; a request ' +
          'without the tag does not count). Without it, the budget has one counter',
      ),
    ),
    match: withDefault(match, {}),
    limits: budgetLimits('The limits of each counter'),
    except: withDefault(
      Type.Record(Type.String(), budgetLimits('The limits of this value'), {
        description: 'Other limits for single values. Limits that are not named stay',
        maxProperties: EXCEPTIONS_MAX,
      }),
      {},
    ),
    on_exhausted: oneOf(
      ['refuse', 'cut', 'downgrade'],
      'What happens without room: `refuse` rejects requests and lets running streams finish, `cut` ends streams, ' +
        'too, and `downgrade` goes on to the next candidate that all budgets allow',
      'refuse',
    ),
    idle_hours: optional(
      integer(
        [1, 8760],
        'Ends a counter so many hours after its last request, though not before windows of its own that end. Without ' +
          'it, it ends with the last of them',
      ),
    ),
  },
  { description: 'A [budget](budgets.md): limits for a person, a team, a model, a session, or any share of requests' },
)

export const budgets = withDefault(
  Type.Array(budget, {
    maxItems: BUDGETS_MAX,
    description: 'Budgets. Of each request, at most 8 of them may apply',
  }),
  [],
)

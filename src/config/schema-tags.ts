/** The schema of tags: their names, and where their values come from. */

import { Type } from '@sinclair/typebox'
import { boolean, object, pattern, tagName, withDefault } from './field-types.ts'

const source = pattern(
  "^(?:user|header:[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128})$",
  'must be user, or header: and the name of a header',
  '`header:NAME`, or `user` for the field `user`, `safety_identifier` or `metadata.user_id` of the body',
)

const tag = Type.Union([
  tagName('A name, such as `project`'),
  object(
    {
      name: tagName('The name'),
      from: withDefault(
        Type.Array(source, {
          maxItems: 8,
          description:
            'Where the value comes from if `X-Gateway-Tags` does not have it: the first of these that has one. A ' +
            'value that no tag may have becomes `h:` and 22 characters of its SHA-256',
        }),
        [],
      ),
      required: boolean('Whether weir rejects a request for a model without the tag', false),
      counted: boolean('Whether `weir usage` sums up by it. Without, it is for budgets and log lines alone', true),
    },
    { description: 'A tag with sources or rules' },
  ),
])

export const tagList = Type.Array(tag, {
  maxItems: 32,
  description:
    'The tags that callers may set with the header `X-Gateway-Tags`, and operators on keys: names, or names with ' +
    'sources. `weir usage --by tag:NAME` sums up by them. Without any the header is ignored',
})

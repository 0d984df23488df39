"""The exact sums of outcomes and contexts that posteriors are made from, as SQL.

A double is turned into a numeric through its text: the shortest decimal that reads back as the same double. A cast
would keep 15 digits only. Sums and products of numerics are exact, so they do not depend on the order of arrival.
"""


def sums_by_arm(changes: str) -> str:
    """A query of arm_id, n, sum_y, sum_yy, sum_xy and sum_xx (NULL without contexts, the upper triangle row by row).

    ``changes`` is a query of arm_id, outcome, context_vals and sign: 1 for what is added, -1 for what is taken away.
    """
    return f"""
        WITH changes AS MATERIALIZED ({changes}),
        scalars AS (
            SELECT arm_id, sum(sign) AS n, sum(sign * y) AS sum_y, sum(sign * y * y) AS sum_yy
            FROM (SELECT arm_id, sign, outcome::text::numeric AS y FROM changes) AS exact
            GROUP BY arm_id
        ),
        vectors AS (
            SELECT arm_id, array_agg(total ORDER BY i) AS sum_xy
            FROM (
                SELECT arm_id, i, sum(sign * outcome::text::numeric * x::text::numeric) AS total
                FROM changes, unnest(context_vals) WITH ORDINALITY AS u (x, i)
                GROUP BY arm_id, i
            ) AS terms
            GROUP BY arm_id
        ),
        squares AS (
            SELECT arm_id, array_agg(total ORDER BY i, j) AS sum_xx
            FROM (
                SELECT arm_id, i, j, sum(sign * x::text::numeric * z::text::numeric) AS total
                FROM changes,
                    unnest(context_vals) WITH ORDINALITY AS u (x, i),
                    unnest(context_vals) WITH ORDINALITY AS v (z, j)
                WHERE j >= i
                GROUP BY arm_id, i, j
            ) AS terms
            GROUP BY arm_id
        )
        SELECT arm_id, n, sum_y, sum_yy, sum_xy, sum_xx
        FROM scalars LEFT JOIN vectors USING (arm_id) LEFT JOIN squares USING (arm_id)
    """  # noqa: S608 - put together from constants of this app


def sum_of_lists(one: str, other: str) -> str:
    """An expression: two lists of numerics added entry by entry; NULL is a list of zeros."""
    return f"""
        CASE
            WHEN {one} IS NULL THEN {other}
            WHEN {other} IS NULL THEN {one}
            ELSE (
                SELECT array_agg(a + b ORDER BY number)
                FROM unnest({one}, {other}) WITH ORDINALITY AS both_lists (a, b, number)
            )
        END
    """  # noqa: S608 - as above


def add_to_arms(changes: str) -> str:
    """A statement that adds the changes to their arms' sums."""
    return f"""
        UPDATE arms SET
            n_outcomes = arms.n_outcomes + delta.n,
            sum_y = arms.sum_y + delta.sum_y,
            sum_yy = arms.sum_yy + delta.sum_yy,
            sum_xy = {sum_of_lists("arms.sum_xy", "delta.sum_xy")},
            sum_xx = {sum_of_lists("arms.sum_xx", "delta.sum_xx")}
        FROM ({sums_by_arm(changes)}) AS delta
        WHERE arms.id = delta.arm_id AND delta.n <> 0
    """  # noqa: S608 - as above

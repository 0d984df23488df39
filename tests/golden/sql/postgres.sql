-- sums by arm, all families of metrics
WITH "step_sent" AS (
  SELECT
    "e"."p",
    "e"."a",
    "e"."c"
  FROM JSON_TO_RECORDSET(CAST($1 AS JSON)) AS "e"("p" TEXT, "a" INT, "c" BIGINT)
), "step_keyed" AS (
  SELECT
    "step_sent"."p",
    "step_sent"."a",
    "step_sent"."c",
    CAST("step_sent"."p" AS BIGINT) AS "k"
  FROM "step_sent"
), "step_found" AS (
  SELECT
    "step_keyed"."k",
    "step_keyed"."a",
    CASE WHEN "w"."is %paid; --" THEN 1 WHEN NOT "w"."is %paid; --" THEN 0 END AS "value_0",
    "w"."select" AS "value_1",
    "w"."a""b`c\d" AS "raw_2",
    CASE
      WHEN "w"."a""b`c\d" > CAST('-Infinity' AS DECIMAL)
      AND "w"."a""b`c\d" < CAST('Infinity' AS DECIMAL)
      THEN "w"."a""b`c\d"
    END AS "value_2",
    "w"."größe
1" AS "raw_3",
    CASE
      WHEN CAST("w"."größe
1" AS DOUBLE PRECISION) BETWEEN CAST('-1.7976931348623157E308' AS DOUBLE PRECISION) AND CAST('1.7976931348623157E308' AS DOUBLE PRECISION)
      THEN CAST("w"."größe
1" AS DOUBLE PRECISION)
    END AS "value_3"
  FROM "step_keyed"
  INNER JOIN "Order's ""Data"" `x`\"."Table 1; DROP" AS "w"
    ON "w"."User ID" = "step_keyed"."k"
), "step_people" AS (
  SELECT
    "step_found"."a",
    COUNT(*) AS "n_rows",
    COUNT("step_found"."value_0") AS "finite_0",
    MIN("step_found"."value_0") AS "low_0",
    MAX("step_found"."value_0") AS "high_0",
    COUNT("step_found"."value_1") AS "finite_1",
    MIN("step_found"."value_1") AS "low_1",
    MAX("step_found"."value_1") AS "high_1",
    COUNT("step_found"."raw_2") AS "present_2",
    COUNT("step_found"."value_2") AS "finite_2",
    MIN("step_found"."value_2") AS "low_2",
    MAX("step_found"."value_2") AS "high_2",
    COUNT("step_found"."raw_3") AS "present_3",
    COUNT("step_found"."value_3") AS "finite_3",
    MIN("step_found"."value_3") AS "low_3",
    MAX("step_found"."value_3") AS "high_3"
  FROM "step_found"
  GROUP BY
    "step_found"."k",
    "step_found"."a"
), "step_judged" AS (
  SELECT
    "step_people"."a",
    CASE
      WHEN "step_people"."finite_0" = "step_people"."n_rows"
      AND "step_people"."low_0" = "step_people"."high_0"
      THEN 0
      WHEN "step_people"."finite_0" = 0
      THEN 2
      ELSE 4
    END AS "verdict_0",
    CASE
      WHEN "step_people"."finite_0" = "step_people"."n_rows"
      AND "step_people"."low_0" = "step_people"."high_0"
      THEN CAST("step_people"."low_0" AS BIGINT)
    END AS "x_0",
    CASE
      WHEN "step_people"."finite_1" = "step_people"."n_rows"
      AND "step_people"."low_1" = "step_people"."high_1"
      THEN 0
      WHEN "step_people"."finite_1" = 0
      THEN 2
      ELSE 4
    END AS "verdict_1",
    CASE
      WHEN "step_people"."finite_1" = "step_people"."n_rows"
      AND "step_people"."low_1" = "step_people"."high_1"
      THEN CAST("step_people"."low_1" AS DECIMAL)
    END AS "x_1",
    CASE
      WHEN (
        "step_people"."finite_2" = "step_people"."n_rows"
        AND "step_people"."low_2" = "step_people"."high_2"
      )
      AND (
        "step_people"."high_2" >= CAST('1E140' AS DECIMAL)
        OR "step_people"."low_2" <= CAST('-1E140' AS DECIMAL)
      )
      THEN 1
      WHEN "step_people"."finite_2" = "step_people"."n_rows"
      AND "step_people"."low_2" = "step_people"."high_2"
      THEN 0
      WHEN "step_people"."present_2" = 0
      THEN 2
      WHEN "step_people"."present_2" = "step_people"."n_rows"
      AND "step_people"."finite_2" = 0
      THEN 3
      ELSE 4
    END AS "verdict_2",
    CASE
      WHEN (
        "step_people"."finite_2" = "step_people"."n_rows"
        AND "step_people"."low_2" = "step_people"."high_2"
      )
      AND NOT (
        "step_people"."high_2" >= CAST('1E140' AS DECIMAL)
        OR "step_people"."low_2" <= CAST('-1E140' AS DECIMAL)
      )
      THEN CAST("step_people"."low_2" AS DECIMAL)
    END AS "x_2",
    CASE
      WHEN (
        "step_people"."finite_3" = "step_people"."n_rows"
        AND "step_people"."low_3" = "step_people"."high_3"
      )
      AND (
        "step_people"."high_3" >= CAST('1E140' AS DOUBLE PRECISION)
        OR "step_people"."low_3" <= CAST('-1E140' AS DOUBLE PRECISION)
      )
      THEN 1
      WHEN "step_people"."finite_3" = "step_people"."n_rows"
      AND "step_people"."low_3" = "step_people"."high_3"
      THEN 0
      WHEN "step_people"."present_3" = 0
      THEN 2
      WHEN "step_people"."present_3" = "step_people"."n_rows"
      AND "step_people"."finite_3" = 0
      THEN 3
      ELSE 4
    END AS "verdict_3",
    CASE
      WHEN (
        "step_people"."finite_3" = "step_people"."n_rows"
        AND "step_people"."low_3" = "step_people"."high_3"
      )
      AND NOT (
        "step_people"."high_3" >= CAST('1E140' AS DOUBLE PRECISION)
        OR "step_people"."low_3" <= CAST('-1E140' AS DOUBLE PRECISION)
      )
      THEN "step_people"."low_3"
    END AS "x_3"
  FROM "step_people"
), "step_anchored" AS (
  SELECT
    "step_judged"."a",
    "step_judged"."verdict_0",
    "step_judged"."x_0",
    "step_judged"."verdict_1",
    "step_judged"."x_1",
    "step_judged"."verdict_2",
    "step_judged"."x_2",
    "step_judged"."verdict_3",
    "step_judged"."x_3"
  FROM "step_judged"
), "step_centred" AS (
  SELECT
    "step_anchored"."a",
    "step_anchored"."verdict_0",
    "step_anchored"."x_0",
    "step_anchored"."verdict_1",
    "step_anchored"."x_1",
    "step_anchored"."verdict_2",
    "step_anchored"."x_2",
    "step_anchored"."verdict_3",
    "step_anchored"."x_3",
    CAST(ROUND(
      AVG(CAST("step_anchored"."x_0" AS DOUBLE PRECISION)) OVER (PARTITION BY "step_anchored"."a")
    ) AS BIGINT) AS "centre_0",
    ROUND(
      CAST(AVG("step_anchored"."x_1") OVER (PARTITION BY "step_anchored"."a") AS DECIMAL),
      0
    ) AS "centre_1",
    ROUND(
      CAST(AVG("step_anchored"."x_2") OVER (PARTITION BY "step_anchored"."a") AS DECIMAL),
      4
    ) AS "centre_2",
    AVG("step_anchored"."x_3") OVER (PARTITION BY "step_anchored"."a") AS "centre_3"
  FROM "step_anchored"
), "step_deviated" AS (
  SELECT
    "step_centred"."a",
    "step_centred"."verdict_0",
    "step_centred"."centre_0",
    CAST("step_centred"."x_0" - "step_centred"."centre_0" AS DOUBLE PRECISION) AS "deviation_0",
    "step_centred"."verdict_1",
    "step_centred"."centre_1",
    CAST("step_centred"."x_1" - "step_centred"."centre_1" AS DOUBLE PRECISION) AS "deviation_1",
    "step_centred"."verdict_2",
    "step_centred"."centre_2",
    CAST("step_centred"."x_2" - "step_centred"."centre_2" AS DOUBLE PRECISION) AS "deviation_2",
    "step_centred"."verdict_3",
    "step_centred"."centre_3",
    CASE
      WHEN "step_centred"."x_3" - "step_centred"."centre_3" BETWEEN CAST('-1E-150' AS DOUBLE PRECISION) AND CAST('1E-150' AS DOUBLE PRECISION)
      THEN CAST('0' AS DOUBLE PRECISION)
      ELSE "step_centred"."x_3" - "step_centred"."centre_3"
    END AS "deviation_3"
  FROM "step_centred"
)
SELECT
  "step_deviated"."a",
  COUNT(*) AS "n_found",
  COUNT(CASE WHEN "step_deviated"."verdict_0" = 0 THEN 1 END) AS "n_0",
  MAX("step_deviated"."centre_0") AS "centre_0",
  SUM("step_deviated"."deviation_0") AS "sum_dev_0",
  SUM("step_deviated"."deviation_0" * "step_deviated"."deviation_0") AS "sum_sq_dev_0",
  COUNT(CASE WHEN "step_deviated"."verdict_0" = 2 THEN 1 END) AS "n_null_0",
  COUNT(CASE WHEN "step_deviated"."verdict_0" = 3 THEN 1 END) AS "n_non_finite_0",
  COUNT(CASE WHEN "step_deviated"."verdict_0" = 4 THEN 1 END) AS "n_duplicate_0",
  COUNT(CASE WHEN "step_deviated"."verdict_0" = 1 THEN 1 END) AS "n_too_large_0",
  COUNT(CASE WHEN "step_deviated"."verdict_1" = 0 THEN 1 END) AS "n_1",
  MAX("step_deviated"."centre_1") AS "centre_1",
  SUM("step_deviated"."deviation_1") AS "sum_dev_1",
  SUM("step_deviated"."deviation_1" * "step_deviated"."deviation_1") AS "sum_sq_dev_1",
  COUNT(CASE WHEN "step_deviated"."verdict_1" = 2 THEN 1 END) AS "n_null_1",
  COUNT(CASE WHEN "step_deviated"."verdict_1" = 3 THEN 1 END) AS "n_non_finite_1",
  COUNT(CASE WHEN "step_deviated"."verdict_1" = 4 THEN 1 END) AS "n_duplicate_1",
  COUNT(CASE WHEN "step_deviated"."verdict_1" = 1 THEN 1 END) AS "n_too_large_1",
  COUNT(CASE WHEN "step_deviated"."verdict_2" = 0 THEN 1 END) AS "n_2",
  MAX("step_deviated"."centre_2") AS "centre_2",
  SUM("step_deviated"."deviation_2") AS "sum_dev_2",
  SUM("step_deviated"."deviation_2" * "step_deviated"."deviation_2") AS "sum_sq_dev_2",
  COUNT(CASE WHEN "step_deviated"."verdict_2" = 2 THEN 1 END) AS "n_null_2",
  COUNT(CASE WHEN "step_deviated"."verdict_2" = 3 THEN 1 END) AS "n_non_finite_2",
  COUNT(CASE WHEN "step_deviated"."verdict_2" = 4 THEN 1 END) AS "n_duplicate_2",
  COUNT(CASE WHEN "step_deviated"."verdict_2" = 1 THEN 1 END) AS "n_too_large_2",
  COUNT(CASE WHEN "step_deviated"."verdict_3" = 0 THEN 1 END) AS "n_3",
  MAX("step_deviated"."centre_3") AS "centre_3",
  SUM("step_deviated"."deviation_3") AS "sum_dev_3",
  SUM("step_deviated"."deviation_3" * "step_deviated"."deviation_3") AS "sum_sq_dev_3",
  COUNT(CASE WHEN "step_deviated"."verdict_3" = 2 THEN 1 END) AS "n_null_3",
  COUNT(CASE WHEN "step_deviated"."verdict_3" = 3 THEN 1 END) AS "n_non_finite_3",
  COUNT(CASE WHEN "step_deviated"."verdict_3" = 4 THEN 1 END) AS "n_duplicate_3",
  COUNT(CASE WHEN "step_deviated"."verdict_3" = 1 THEN 1 END) AS "n_too_large_3"
FROM "step_deviated"
GROUP BY
  "step_deviated"."a";

-- sums by cluster
WITH "step_sent" AS (
  SELECT
    "e"."p",
    "e"."a",
    "e"."c"
  FROM JSON_TO_RECORDSET(CAST($1 AS JSON)) AS "e"("p" TEXT, "a" INT, "c" BIGINT)
), "step_keyed" AS (
  SELECT
    "step_sent"."p",
    "step_sent"."a",
    "step_sent"."c",
    CAST("step_sent"."p" AS BIGINT) AS "k"
  FROM "step_sent"
), "step_found" AS (
  SELECT
    "step_keyed"."k",
    "step_keyed"."a",
    "step_keyed"."c",
    "w"."größe
1" AS "raw_0",
    CASE
      WHEN CAST("w"."größe
1" AS DOUBLE PRECISION) BETWEEN CAST('-1.7976931348623157E308' AS DOUBLE PRECISION) AND CAST('1.7976931348623157E308' AS DOUBLE PRECISION)
      THEN CAST("w"."größe
1" AS DOUBLE PRECISION)
    END AS "value_0"
  FROM "step_keyed"
  INNER JOIN "Order's ""Data"" `x`\"."Table 1; DROP" AS "w"
    ON "w"."User ID" = "step_keyed"."k"
), "step_people" AS (
  SELECT
    "step_found"."a",
    "step_found"."c",
    COUNT(*) AS "n_rows",
    COUNT("step_found"."raw_0") AS "present_0",
    COUNT("step_found"."value_0") AS "finite_0",
    MIN("step_found"."value_0") AS "low_0",
    MAX("step_found"."value_0") AS "high_0"
  FROM "step_found"
  GROUP BY
    "step_found"."k",
    "step_found"."a",
    "step_found"."c"
), "step_judged" AS (
  SELECT
    "step_people"."a",
    "step_people"."c",
    CASE
      WHEN (
        "step_people"."finite_0" = "step_people"."n_rows"
        AND "step_people"."low_0" = "step_people"."high_0"
      )
      AND (
        "step_people"."high_0" >= CAST('1E140' AS DOUBLE PRECISION)
        OR "step_people"."low_0" <= CAST('-1E140' AS DOUBLE PRECISION)
      )
      THEN 1
      WHEN "step_people"."finite_0" = "step_people"."n_rows"
      AND "step_people"."low_0" = "step_people"."high_0"
      THEN 0
      WHEN "step_people"."present_0" = 0
      THEN 2
      WHEN "step_people"."present_0" = "step_people"."n_rows"
      AND "step_people"."finite_0" = 0
      THEN 3
      ELSE 4
    END AS "verdict_0",
    CASE
      WHEN (
        "step_people"."finite_0" = "step_people"."n_rows"
        AND "step_people"."low_0" = "step_people"."high_0"
      )
      AND NOT (
        "step_people"."high_0" >= CAST('1E140' AS DOUBLE PRECISION)
        OR "step_people"."low_0" <= CAST('-1E140' AS DOUBLE PRECISION)
      )
      THEN "step_people"."low_0"
    END AS "x_0"
  FROM "step_people"
), "step_anchored" AS (
  SELECT
    "step_judged"."a",
    "step_judged"."c",
    "step_judged"."verdict_0",
    "step_judged"."x_0"
  FROM "step_judged"
), "step_centred" AS (
  SELECT
    "step_anchored"."a",
    "step_anchored"."c",
    "step_anchored"."verdict_0",
    "step_anchored"."x_0",
    AVG("step_anchored"."x_0") OVER (PARTITION BY "step_anchored"."a") AS "centre_0"
  FROM "step_anchored"
), "step_deviated" AS (
  SELECT
    "step_centred"."a",
    "step_centred"."c",
    "step_centred"."verdict_0",
    "step_centred"."centre_0",
    CASE
      WHEN "step_centred"."x_0" - "step_centred"."centre_0" BETWEEN CAST('-1E-150' AS DOUBLE PRECISION) AND CAST('1E-150' AS DOUBLE PRECISION)
      THEN CAST('0' AS DOUBLE PRECISION)
      ELSE "step_centred"."x_0" - "step_centred"."centre_0"
    END AS "deviation_0"
  FROM "step_centred"
)
SELECT
  "step_deviated"."a",
  "step_deviated"."c",
  COUNT(*) AS "n_found",
  COUNT(CASE WHEN "step_deviated"."verdict_0" = 0 THEN 1 END) AS "n_0",
  MAX("step_deviated"."centre_0") AS "centre_0",
  SUM("step_deviated"."deviation_0") AS "sum_dev_0",
  SUM("step_deviated"."deviation_0" * "step_deviated"."deviation_0") AS "sum_sq_dev_0",
  COUNT(CASE WHEN "step_deviated"."verdict_0" = 2 THEN 1 END) AS "n_null_0",
  COUNT(CASE WHEN "step_deviated"."verdict_0" = 3 THEN 1 END) AS "n_non_finite_0",
  COUNT(CASE WHEN "step_deviated"."verdict_0" = 4 THEN 1 END) AS "n_duplicate_0",
  COUNT(CASE WHEN "step_deviated"."verdict_0" = 1 THEN 1 END) AS "n_too_large_0"
FROM "step_deviated"
GROUP BY
  "step_deviated"."a",
  "step_deviated"."c";

-- sums by arm, ids of a text column
WITH "step_sent" AS (
  SELECT
    "e"."p",
    "e"."a",
    "e"."c"
  FROM JSON_TO_RECORDSET(CAST($1 AS JSON)) AS "e"("p" TEXT, "a" INT, "c" BIGINT)
), "step_keyed" AS (
  SELECT
    "step_sent"."p",
    "step_sent"."a",
    "step_sent"."c",
    CAST("step_sent"."p" AS TEXT) AS "k"
  FROM "step_sent"
), "step_found" AS (
  SELECT
    "step_keyed"."k",
    "step_keyed"."a",
    "w"."größe
1" AS "raw_0",
    CASE
      WHEN CAST("w"."größe
1" AS DOUBLE PRECISION) BETWEEN CAST('-1.7976931348623157E308' AS DOUBLE PRECISION) AND CAST('1.7976931348623157E308' AS DOUBLE PRECISION)
      THEN CAST("w"."größe
1" AS DOUBLE PRECISION)
    END AS "value_0"
  FROM "step_keyed"
  INNER JOIN "t" AS "w"
    ON "w"."id" = "step_keyed"."k"
), "step_people" AS (
  SELECT
    "step_found"."a",
    COUNT(*) AS "n_rows",
    COUNT("step_found"."raw_0") AS "present_0",
    COUNT("step_found"."value_0") AS "finite_0",
    MIN("step_found"."value_0") AS "low_0",
    MAX("step_found"."value_0") AS "high_0"
  FROM "step_found"
  GROUP BY
    "step_found"."k",
    "step_found"."a"
), "step_judged" AS (
  SELECT
    "step_people"."a",
    CASE
      WHEN (
        "step_people"."finite_0" = "step_people"."n_rows"
        AND "step_people"."low_0" = "step_people"."high_0"
      )
      AND (
        "step_people"."high_0" >= CAST('1E140' AS DOUBLE PRECISION)
        OR "step_people"."low_0" <= CAST('-1E140' AS DOUBLE PRECISION)
      )
      THEN 1
      WHEN "step_people"."finite_0" = "step_people"."n_rows"
      AND "step_people"."low_0" = "step_people"."high_0"
      THEN 0
      WHEN "step_people"."present_0" = 0
      THEN 2
      WHEN "step_people"."present_0" = "step_people"."n_rows"
      AND "step_people"."finite_0" = 0
      THEN 3
      ELSE 4
    END AS "verdict_0",
    CASE
      WHEN (
        "step_people"."finite_0" = "step_people"."n_rows"
        AND "step_people"."low_0" = "step_people"."high_0"
      )
      AND NOT (
        "step_people"."high_0" >= CAST('1E140' AS DOUBLE PRECISION)
        OR "step_people"."low_0" <= CAST('-1E140' AS DOUBLE PRECISION)
      )
      THEN "step_people"."low_0"
    END AS "x_0"
  FROM "step_people"
), "step_anchored" AS (
  SELECT
    "step_judged"."a",
    "step_judged"."verdict_0",
    "step_judged"."x_0"
  FROM "step_judged"
), "step_centred" AS (
  SELECT
    "step_anchored"."a",
    "step_anchored"."verdict_0",
    "step_anchored"."x_0",
    AVG("step_anchored"."x_0") OVER (PARTITION BY "step_anchored"."a") AS "centre_0"
  FROM "step_anchored"
), "step_deviated" AS (
  SELECT
    "step_centred"."a",
    "step_centred"."verdict_0",
    "step_centred"."centre_0",
    CASE
      WHEN "step_centred"."x_0" - "step_centred"."centre_0" BETWEEN CAST('-1E-150' AS DOUBLE PRECISION) AND CAST('1E-150' AS DOUBLE PRECISION)
      THEN CAST('0' AS DOUBLE PRECISION)
      ELSE "step_centred"."x_0" - "step_centred"."centre_0"
    END AS "deviation_0"
  FROM "step_centred"
)
SELECT
  "step_deviated"."a",
  COUNT(*) AS "n_found",
  COUNT(CASE WHEN "step_deviated"."verdict_0" = 0 THEN 1 END) AS "n_0",
  MAX("step_deviated"."centre_0") AS "centre_0",
  SUM("step_deviated"."deviation_0") AS "sum_dev_0",
  SUM("step_deviated"."deviation_0" * "step_deviated"."deviation_0") AS "sum_sq_dev_0",
  COUNT(CASE WHEN "step_deviated"."verdict_0" = 2 THEN 1 END) AS "n_null_0",
  COUNT(CASE WHEN "step_deviated"."verdict_0" = 3 THEN 1 END) AS "n_non_finite_0",
  COUNT(CASE WHEN "step_deviated"."verdict_0" = 4 THEN 1 END) AS "n_duplicate_0",
  COUNT(CASE WHEN "step_deviated"."verdict_0" = 1 THEN 1 END) AS "n_too_large_0"
FROM "step_deviated"
GROUP BY
  "step_deviated"."a";

-- outcomes of a boolean column
WITH "step_sent" AS (
  SELECT
    "e"."p",
    "e"."a",
    "e"."c"
  FROM JSON_TO_RECORDSET(CAST($1 AS JSON)) AS "e"("p" TEXT, "a" INT, "c" BIGINT)
), "step_keyed" AS (
  SELECT
    "step_sent"."p",
    "step_sent"."a",
    "step_sent"."c",
    CAST("step_sent"."p" AS BIGINT) AS "k"
  FROM "step_sent"
), "step_found" AS (
  SELECT
    "step_keyed"."p",
    CASE WHEN "w"."is %paid; --" THEN 1 WHEN NOT "w"."is %paid; --" THEN 0 END AS "value_0"
  FROM "step_keyed"
  INNER JOIN "Order's ""Data"" `x`\"."Table 1; DROP" AS "w"
    ON "w"."User ID" = "step_keyed"."k"
), "step_people" AS (
  SELECT
    "step_found"."p",
    COUNT(*) AS "n_rows",
    COUNT("step_found"."value_0") AS "finite_0",
    MIN("step_found"."value_0") AS "low_0",
    MAX("step_found"."value_0") AS "high_0"
  FROM "step_found"
  GROUP BY
    "step_found"."p"
)
SELECT
  "step_people"."p",
  "step_people"."n_rows",
  CASE
    WHEN "step_people"."finite_0" = "step_people"."n_rows"
    AND "step_people"."low_0" = "step_people"."high_0"
    THEN "step_people"."low_0"
  END AS "value",
  CASE
    WHEN (
      "step_people"."finite_0" = "step_people"."n_rows"
      AND "step_people"."low_0" = "step_people"."high_0"
    )
    OR "step_people"."finite_0" = 0
    THEN 1
    ELSE 0
  END AS "agreed",
  0 AS "non_finite"
FROM "step_people";

-- outcomes of a integer column
WITH "step_sent" AS (
  SELECT
    "e"."p",
    "e"."a",
    "e"."c"
  FROM JSON_TO_RECORDSET(CAST($1 AS JSON)) AS "e"("p" TEXT, "a" INT, "c" BIGINT)
), "step_keyed" AS (
  SELECT
    "step_sent"."p",
    "step_sent"."a",
    "step_sent"."c",
    CAST("step_sent"."p" AS BIGINT) AS "k"
  FROM "step_sent"
), "step_found" AS (
  SELECT
    "step_keyed"."p",
    "w"."select" AS "value_0"
  FROM "step_keyed"
  INNER JOIN "Order's ""Data"" `x`\"."Table 1; DROP" AS "w"
    ON "w"."User ID" = "step_keyed"."k"
), "step_people" AS (
  SELECT
    "step_found"."p",
    COUNT(*) AS "n_rows",
    COUNT("step_found"."value_0") AS "finite_0",
    MIN("step_found"."value_0") AS "low_0",
    MAX("step_found"."value_0") AS "high_0"
  FROM "step_found"
  GROUP BY
    "step_found"."p"
)
SELECT
  "step_people"."p",
  "step_people"."n_rows",
  CASE
    WHEN "step_people"."finite_0" = "step_people"."n_rows"
    AND "step_people"."low_0" = "step_people"."high_0"
    THEN "step_people"."low_0"
  END AS "value",
  CASE
    WHEN (
      "step_people"."finite_0" = "step_people"."n_rows"
      AND "step_people"."low_0" = "step_people"."high_0"
    )
    OR "step_people"."finite_0" = 0
    THEN 1
    ELSE 0
  END AS "agreed",
  0 AS "non_finite"
FROM "step_people";

-- outcomes of a decimal column
WITH "step_sent" AS (
  SELECT
    "e"."p",
    "e"."a",
    "e"."c"
  FROM JSON_TO_RECORDSET(CAST($1 AS JSON)) AS "e"("p" TEXT, "a" INT, "c" BIGINT)
), "step_keyed" AS (
  SELECT
    "step_sent"."p",
    "step_sent"."a",
    "step_sent"."c",
    CAST("step_sent"."p" AS BIGINT) AS "k"
  FROM "step_sent"
), "step_found" AS (
  SELECT
    "step_keyed"."p",
    "w"."a""b`c\d" AS "raw_0",
    CASE
      WHEN "w"."a""b`c\d" > CAST('-Infinity' AS DECIMAL)
      AND "w"."a""b`c\d" < CAST('Infinity' AS DECIMAL)
      THEN "w"."a""b`c\d"
    END AS "value_0"
  FROM "step_keyed"
  INNER JOIN "Order's ""Data"" `x`\"."Table 1; DROP" AS "w"
    ON "w"."User ID" = "step_keyed"."k"
), "step_people" AS (
  SELECT
    "step_found"."p",
    COUNT(*) AS "n_rows",
    COUNT("step_found"."raw_0") AS "present_0",
    COUNT("step_found"."value_0") AS "finite_0",
    MIN("step_found"."value_0") AS "low_0",
    MAX("step_found"."value_0") AS "high_0"
  FROM "step_found"
  GROUP BY
    "step_found"."p"
)
SELECT
  "step_people"."p",
  "step_people"."n_rows",
  CASE
    WHEN "step_people"."finite_0" = "step_people"."n_rows"
    AND "step_people"."low_0" = "step_people"."high_0"
    THEN "step_people"."low_0"
  END AS "value",
  CASE
    WHEN (
      (
        "step_people"."finite_0" = "step_people"."n_rows"
        AND "step_people"."low_0" = "step_people"."high_0"
      )
      OR "step_people"."present_0" = 0
    )
    OR (
      "step_people"."present_0" = "step_people"."n_rows"
      AND "step_people"."finite_0" = 0
    )
    THEN 1
    ELSE 0
  END AS "agreed",
  CASE
    WHEN "step_people"."present_0" = "step_people"."n_rows"
    AND "step_people"."finite_0" = 0
    THEN 1
    ELSE 0
  END AS "non_finite"
FROM "step_people";

-- outcomes of a double column
WITH "step_sent" AS (
  SELECT
    "e"."p",
    "e"."a",
    "e"."c"
  FROM JSON_TO_RECORDSET(CAST($1 AS JSON)) AS "e"("p" TEXT, "a" INT, "c" BIGINT)
), "step_keyed" AS (
  SELECT
    "step_sent"."p",
    "step_sent"."a",
    "step_sent"."c",
    CAST("step_sent"."p" AS BIGINT) AS "k"
  FROM "step_sent"
), "step_found" AS (
  SELECT
    "step_keyed"."p",
    "w"."größe
1" AS "raw_0",
    CASE
      WHEN CAST("w"."größe
1" AS DOUBLE PRECISION) BETWEEN CAST('-1.7976931348623157E308' AS DOUBLE PRECISION) AND CAST('1.7976931348623157E308' AS DOUBLE PRECISION)
      THEN CAST("w"."größe
1" AS DOUBLE PRECISION)
    END AS "value_0"
  FROM "step_keyed"
  INNER JOIN "Order's ""Data"" `x`\"."Table 1; DROP" AS "w"
    ON "w"."User ID" = "step_keyed"."k"
), "step_people" AS (
  SELECT
    "step_found"."p",
    COUNT(*) AS "n_rows",
    COUNT("step_found"."raw_0") AS "present_0",
    COUNT("step_found"."value_0") AS "finite_0",
    MIN("step_found"."value_0") AS "low_0",
    MAX("step_found"."value_0") AS "high_0"
  FROM "step_found"
  GROUP BY
    "step_found"."p"
)
SELECT
  "step_people"."p",
  "step_people"."n_rows",
  CASE
    WHEN "step_people"."finite_0" = "step_people"."n_rows"
    AND "step_people"."low_0" = "step_people"."high_0"
    THEN "step_people"."low_0"
  END AS "value",
  CASE
    WHEN (
      (
        "step_people"."finite_0" = "step_people"."n_rows"
        AND "step_people"."low_0" = "step_people"."high_0"
      )
      OR "step_people"."present_0" = 0
    )
    OR (
      "step_people"."present_0" = "step_people"."n_rows"
      AND "step_people"."finite_0" = 0
    )
    THEN 1
    ELSE 0
  END AS "agreed",
  CASE
    WHEN "step_people"."present_0" = "step_people"."n_rows"
    AND "step_people"."finite_0" = 0
    THEN 1
    ELSE 0
  END AS "non_finite"
FROM "step_people";

-- outcomes of a text column
WITH "step_sent" AS (
  SELECT
    "e"."p",
    "e"."a",
    "e"."c"
  FROM JSON_TO_RECORDSET(CAST($1 AS JSON)) AS "e"("p" TEXT, "a" INT, "c" BIGINT)
), "step_keyed" AS (
  SELECT
    "step_sent"."p",
    "step_sent"."a",
    "step_sent"."c",
    CAST("step_sent"."p" AS BIGINT) AS "k"
  FROM "step_sent"
), "step_found" AS (
  SELECT
    "step_keyed"."p",
    CAST("w"."k" AS TEXT) AS "value_0"
  FROM "step_keyed"
  INNER JOIN "Order's ""Data"" `x`\"."Table 1; DROP" AS "w"
    ON "w"."User ID" = "step_keyed"."k"
), "step_people" AS (
  SELECT
    "step_found"."p",
    COUNT(*) AS "n_rows",
    COUNT("step_found"."value_0") AS "finite_0",
    MIN("step_found"."value_0") AS "low_0",
    MAX("step_found"."value_0") AS "high_0"
  FROM "step_found"
  GROUP BY
    "step_found"."p"
)
SELECT
  "step_people"."p",
  "step_people"."n_rows",
  CASE
    WHEN "step_people"."finite_0" = "step_people"."n_rows"
    AND "step_people"."low_0" = "step_people"."high_0"
    THEN LEFT("step_people"."low_0", 200)
  END AS "value",
  CASE
    WHEN (
      "step_people"."finite_0" = "step_people"."n_rows"
      AND "step_people"."low_0" = "step_people"."high_0"
    )
    OR "step_people"."finite_0" = 0
    THEN 1
    ELSE 0
  END AS "agreed",
  0 AS "non_finite"
FROM "step_people";

-- outcomes by ids of type text
WITH "step_sent" AS (
  SELECT
    "e"."p",
    "e"."a",
    "e"."c"
  FROM JSON_TO_RECORDSET(CAST($1 AS JSON)) AS "e"("p" TEXT, "a" INT, "c" BIGINT)
), "step_keyed" AS (
  SELECT
    "step_sent"."p",
    "step_sent"."a",
    "step_sent"."c",
    CAST("step_sent"."p" AS TEXT) AS "k"
  FROM "step_sent"
), "step_found" AS (
  SELECT
    "step_keyed"."p",
    "w"."select" AS "value_0"
  FROM "step_keyed"
  INNER JOIN "t" AS "w"
    ON "w"."id" = "step_keyed"."k"
), "step_people" AS (
  SELECT
    "step_found"."p",
    COUNT(*) AS "n_rows",
    COUNT("step_found"."value_0") AS "finite_0",
    MIN("step_found"."value_0") AS "low_0",
    MAX("step_found"."value_0") AS "high_0"
  FROM "step_found"
  GROUP BY
    "step_found"."p"
)
SELECT
  "step_people"."p",
  "step_people"."n_rows",
  CASE
    WHEN "step_people"."finite_0" = "step_people"."n_rows"
    AND "step_people"."low_0" = "step_people"."high_0"
    THEN "step_people"."low_0"
  END AS "value",
  CASE
    WHEN (
      "step_people"."finite_0" = "step_people"."n_rows"
      AND "step_people"."low_0" = "step_people"."high_0"
    )
    OR "step_people"."finite_0" = 0
    THEN 1
    ELSE 0
  END AS "agreed",
  0 AS "non_finite"
FROM "step_people";

-- outcomes by ids of type numeric(20,4)
WITH "step_sent" AS (
  SELECT
    "e"."p",
    "e"."a",
    "e"."c"
  FROM JSON_TO_RECORDSET(CAST($1 AS JSON)) AS "e"("p" TEXT, "a" INT, "c" BIGINT)
), "step_keyed" AS (
  SELECT
    "step_sent"."p",
    "step_sent"."a",
    "step_sent"."c",
    CAST("step_sent"."p" AS DECIMAL) AS "k"
  FROM "step_sent"
), "step_found" AS (
  SELECT
    "step_keyed"."p",
    "w"."select" AS "value_0"
  FROM "step_keyed"
  INNER JOIN "t" AS "w"
    ON "w"."id" = "step_keyed"."k"
), "step_people" AS (
  SELECT
    "step_found"."p",
    COUNT(*) AS "n_rows",
    COUNT("step_found"."value_0") AS "finite_0",
    MIN("step_found"."value_0") AS "low_0",
    MAX("step_found"."value_0") AS "high_0"
  FROM "step_found"
  GROUP BY
    "step_found"."p"
)
SELECT
  "step_people"."p",
  "step_people"."n_rows",
  CASE
    WHEN "step_people"."finite_0" = "step_people"."n_rows"
    AND "step_people"."low_0" = "step_people"."high_0"
    THEN "step_people"."low_0"
  END AS "value",
  CASE
    WHEN (
      "step_people"."finite_0" = "step_people"."n_rows"
      AND "step_people"."low_0" = "step_people"."high_0"
    )
    OR "step_people"."finite_0" = 0
    THEN 1
    ELSE 0
  END AS "agreed",
  0 AS "non_finite"
FROM "step_people";

-- outcomes by ids of type double precision
WITH "step_sent" AS (
  SELECT
    "e"."p",
    "e"."a",
    "e"."c"
  FROM JSON_TO_RECORDSET(CAST($1 AS JSON)) AS "e"("p" TEXT, "a" INT, "c" BIGINT)
), "step_keyed" AS (
  SELECT
    "step_sent"."p",
    "step_sent"."a",
    "step_sent"."c",
    CAST("step_sent"."p" AS DOUBLE PRECISION) AS "k"
  FROM "step_sent"
), "step_found" AS (
  SELECT
    "step_keyed"."p",
    "w"."select" AS "value_0"
  FROM "step_keyed"
  INNER JOIN "t" AS "w"
    ON "w"."id" = "step_keyed"."k"
), "step_people" AS (
  SELECT
    "step_found"."p",
    COUNT(*) AS "n_rows",
    COUNT("step_found"."value_0") AS "finite_0",
    MIN("step_found"."value_0") AS "low_0",
    MAX("step_found"."value_0") AS "high_0"
  FROM "step_found"
  GROUP BY
    "step_found"."p"
)
SELECT
  "step_people"."p",
  "step_people"."n_rows",
  CASE
    WHEN "step_people"."finite_0" = "step_people"."n_rows"
    AND "step_people"."low_0" = "step_people"."high_0"
    THEN "step_people"."low_0"
  END AS "value",
  CASE
    WHEN (
      "step_people"."finite_0" = "step_people"."n_rows"
      AND "step_people"."low_0" = "step_people"."high_0"
    )
    OR "step_people"."finite_0" = 0
    THEN 1
    ELSE 0
  END AS "agreed",
  0 AS "non_finite"
FROM "step_people";

-- outcomes by ids of type uuid
WITH "step_sent" AS (
  SELECT
    "e"."p",
    "e"."a",
    "e"."c"
  FROM JSON_TO_RECORDSET(CAST($1 AS JSON)) AS "e"("p" TEXT, "a" INT, "c" BIGINT)
), "step_keyed" AS (
  SELECT
    "step_sent"."p",
    "step_sent"."a",
    "step_sent"."c",
    CAST("step_sent"."p" AS UUID) AS "k"
  FROM "step_sent"
), "step_found" AS (
  SELECT
    "step_keyed"."p",
    "w"."select" AS "value_0"
  FROM "step_keyed"
  INNER JOIN "t" AS "w"
    ON "w"."id" = "step_keyed"."k"
), "step_people" AS (
  SELECT
    "step_found"."p",
    COUNT(*) AS "n_rows",
    COUNT("step_found"."value_0") AS "finite_0",
    MIN("step_found"."value_0") AS "low_0",
    MAX("step_found"."value_0") AS "high_0"
  FROM "step_found"
  GROUP BY
    "step_found"."p"
)
SELECT
  "step_people"."p",
  "step_people"."n_rows",
  CASE
    WHEN "step_people"."finite_0" = "step_people"."n_rows"
    AND "step_people"."low_0" = "step_people"."high_0"
    THEN "step_people"."low_0"
  END AS "value",
  CASE
    WHEN (
      "step_people"."finite_0" = "step_people"."n_rows"
      AND "step_people"."low_0" = "step_people"."high_0"
    )
    OR "step_people"."finite_0" = 0
    THEN 1
    ELSE 0
  END AS "agreed",
  0 AS "non_finite"
FROM "step_people";

-- outcomes by ids of type character(12)
WITH "step_sent" AS (
  SELECT
    "e"."p",
    "e"."a",
    "e"."c"
  FROM JSON_TO_RECORDSET(CAST($1 AS JSON)) AS "e"("p" TEXT, "a" INT, "c" BIGINT)
), "step_keyed" AS (
  SELECT
    "step_sent"."p",
    "step_sent"."a",
    "step_sent"."c",
    CAST("step_sent"."p" AS BPCHAR) AS "k"
  FROM "step_sent"
), "step_found" AS (
  SELECT
    "step_keyed"."p",
    "w"."select" AS "value_0"
  FROM "step_keyed"
  INNER JOIN "t" AS "w"
    ON "w"."id" = "step_keyed"."k"
), "step_people" AS (
  SELECT
    "step_found"."p",
    COUNT(*) AS "n_rows",
    COUNT("step_found"."value_0") AS "finite_0",
    MIN("step_found"."value_0") AS "low_0",
    MAX("step_found"."value_0") AS "high_0"
  FROM "step_found"
  GROUP BY
    "step_found"."p"
)
SELECT
  "step_people"."p",
  "step_people"."n_rows",
  CASE
    WHEN "step_people"."finite_0" = "step_people"."n_rows"
    AND "step_people"."low_0" = "step_people"."high_0"
    THEN "step_people"."low_0"
  END AS "value",
  CASE
    WHEN (
      "step_people"."finite_0" = "step_people"."n_rows"
      AND "step_people"."low_0" = "step_people"."high_0"
    )
    OR "step_people"."finite_0" = 0
    THEN 1
    ELSE 0
  END AS "agreed",
  0 AS "non_finite"
FROM "step_people";

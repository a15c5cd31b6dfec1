"""Extract names from a query's DuckDB syntax tree; statements other than plain queries are rejected."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from tracebraid.errors import QueryError
from tracebraid.queries.catalog import Catalog, SourceTable, View, Viewable
from tracebraid.queries.engine import position_at

TABLE_FUNCTIONS = {
    *("unnest", "generate_series", "range", "repeat", "repeat_row"),
    *("json_each", "json_tree"),
}
"""Table functions that read only their arguments. Others read files, memory, or the engine's own state."""
FILE_FUNCTIONS = {
    *("read_csv", "read_csv_auto", "read_json", "read_json_auto", "read_json_objects", "read_ndjson"),
    *("read_ndjson_auto", "read_parquet", "parquet_scan", "read_text"),
}
"""Table functions that read files, if allowed."""


def is_plain(name: str) -> bool:
    """Return whether a function of this name, in lower case, reads nothing but its arguments; operators do not."""
    return name in _PLAIN or not any(map(str.isalpha, name))


_NAMES = """
abs acos acosh add age aggregate ago alias any_value apply approx_count_distinct approx_quantile
approx_top_k arbitrary arg_max arg_max_null arg_max_nulls_last arg_min arg_min_null
arg_min_nulls_last argmax argmin array_agg array_aggr array_aggregate array_append array_apply
array_cat array_concat array_contains array_cosine_distance array_cosine_similarity
array_cross_product array_distance array_distinct array_dot_product array_extract array_filter
array_grade_up array_has array_has_all array_has_any array_indexof array_inner_product
array_intersect array_length array_negative_dot_product array_negative_inner_product array_pop_back
array_pop_front array_position array_prepend array_push_back array_push_front array_reduce
array_resize array_reverse array_reverse_sort array_select array_slice array_sort array_to_json
array_to_string array_to_string_comma_default array_transform array_unique array_value array_where
array_zip ascii asin asinh assert_true atan atan2 atanh avg bar base64 bin binom bit_and bit_count
bit_length bit_or bit_position bit_xor bitstring bitstring_agg bitstring_byte_comparable bool_and
bool_or can_cast_implicitly cardinality cast_to_type cbrt ceil ceiling century char_length
character_length chr concat concat_ws constant_or_null contains corr cos cosh cot count count_if
count_star countif covar_pop covar_samp create_sort_key cume_dist current_catalog current_database
current_date current_localtime current_localtimestamp current_role current_schema current_user
damerau_levenshtein date_add date_diff date_part date_sub date_trunc datediff datepart datesub
datetrunc day dayname dayofmonth dayofweek dayofyear days_in_month decade decimal_average
decimal_division decode degrees dense_rank divide editdist3 element_at encode ends_with entropy
enum_code enum_first enum_last enum_range enum_range_boundary epoch epoch_ms epoch_ns epoch_us
equi_width_bins era error even exp factorial favg fdiv fill filter first first_value flatten floor
fmod format format_bytes formatreadabledecimalsize formatreadablesize from_base64
from_binary from_hex from_json from_json_strict fsum gamma gcd gen_random_uuid generate_series
generate_subscripts geomean geometric_mean get_bit get_current_time get_current_timestamp get_type
grade_up greatest greatest_common_divisor group_concat hamming hash hex histogram histogram_exact
hive_partition_component hour icu_sort_key if ilike_escape instr invoke is_histogram_other_bin
isfinite isinf isnan isodow isoyear jaccard jaro_similarity jaro_winkler_similarity json json_array
json_array_length json_contains json_copy_strftime_if_date json_copy_strftime_if_timestamp
json_deep_merge json_deserialize_sql json_exists json_extract json_extract_path
json_extract_path_text json_extract_string json_group_array json_group_object json_group_structure
json_insert json_keys json_merge_patch json_merge_patch_diff json_normalize json_object json_pretty
json_quote json_remove json_replace json_serialize_sql json_set json_strip_nulls json_structure
json_transform json_transform_strict json_type json_valid json_value julian kahan_sum kurtosis
kurtosis_pop lag last last_day last_value lcase lcm lead least least_common_multiple left
left_grapheme len length length_grapheme levenshtein lgamma like_escape list list_aggr
list_aggregate list_any_value list_append list_apply list_approx_count_distinct list_avg
list_bit_and list_bit_or list_bit_xor list_bool_and list_bool_or list_cat list_concat list_contains
list_cosine_distance list_cosine_similarity list_count list_distance list_distinct list_dot_product
list_element list_entropy list_extract list_filter list_first list_grade_up list_has list_has_all
list_has_any list_histogram list_indexof list_inner_product list_intersect list_kurtosis
list_kurtosis_pop list_last list_mad list_max list_median list_min list_mode
list_negative_dot_product list_negative_inner_product list_pack list_position list_prepend
list_product list_reduce list_resize list_reverse list_reverse_sort list_select list_sem
list_skewness list_slice list_sort list_stddev_pop list_stddev_samp list_string_agg list_sum
list_transform list_unique list_value list_var_pop list_var_samp list_where list_zip listagg ln log
log10 log2 lower lpad ltrim lttb mad make_date make_time make_timestamp make_timestamp_ms
make_timestamp_ns make_timestamptz make_type map map_concat map_contains map_contains_entry
map_contains_value map_entries map_extract map_extract_value map_from_entries map_keys map_values
max max_by md5 md5_number md5_number_lower md5_number_upper mean median microsecond millennium
millisecond min min_by minute mismatches mod mode month monthname multiply nanosecond nextafter
nfc_normalize normalized_interval not_ilike_escape not_like_escape now nth_value ntile nullif
octet_length ord overlay parse_dirname parse_dirpath parse_filename parse_formatted_bytes parse_path
path_join percent_rank pi position pow power prefix printf product quantile quantile_cont
quantile_disc quarter radians random range rank rank_dense reduce regexp_escape regexp_extract
regexp_extract_all regexp_full_match regexp_matches regexp_replace regexp_split_to_array
regexp_split_to_table regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
regr_sxy regr_syy remap_struct repeat replace replace_type reservoir_quantile reverse right
right_grapheme round round_even roundbankers row row_number row_to_json rpad rtrim second sem
session_user set_bit setseed sha1 sha256 sign signbit sin sinh skewness split split_part sqrt
st_asbinary st_asgeojson st_astext st_aswkb st_aswkt st_crs st_geomfromgeojson st_geomfromwkb
st_intersects_extent st_setcrs starts_with stddev stddev_pop stddev_samp str_split str_split_regex
strftime string_agg string_split string_split_regex string_to_array strip_accents strlen strpos
strptime struct_concat struct_contains struct_extract struct_extract_at struct_has struct_indexof
struct_insert struct_keys struct_pack struct_position struct_update struct_values substr substring
substring_grapheme subtract suffix sum sum_no_overflow sumkahan switch tan tanh time_bucket
timetz_byte_comparable timezone timezone_hour timezone_minute to_base to_base64 to_binary
to_centuries to_days to_decades to_hex to_hours to_json to_microseconds to_millennia to_milliseconds
to_minutes to_months to_quarters to_seconds to_timestamp to_weeks to_years today
transaction_timestamp translate trim trunc try_strptime typeof ucase unbin unhex unicode
union_extract union_tag union_value unpivot_list upper url_decode url_encode user uuid
uuid_extract_timestamp uuid_extract_version uuidv4 uuidv7 var_pop var_samp variance
variant_array_length variant_bytes_to_variant variant_comparator variant_contains variant_exists
variant_extract variant_extract_string variant_group_array variant_group_object variant_keys
variant_normalize variant_to_parquet_variant variant_type variant_typeof vertex_extract wavg week
weekday weekofyear weighted_avg xor year yearweek
"""
"""Scalar, aggregate and window functions, and macros, of all versions of DuckDB from 1.4 to 2.0."""
_PLAIN = {*_NAMES.split(), "!__postfix", "is distinct from", "is not distinct from"}


_QUERY_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
"""Kinds of nodes that read; all others write, or are unknown."""
_ENGINES_OWN = ("__", "pg_", "duckdb_", "pragma_", "sqlite_")
"""Prefixes of functions and tables that expose the engine's state."""
_FILES = re.compile(r"\.(csv|tsv|parquet|json|jsonl|ndjson)(\.(gz|zst))?$")
"""Names that the engine would read as files, if a query may read files; no table has such a name."""
_IN_FROM = {"BASE_TABLE", "SUBQUERY", "TABLE_FUNCTION", "JOIN", "EXPRESSION_LIST", "PIVOT"}
"""Kinds of nodes in `from`."""
_WHOLE_ROWS = {"STAR", "PIVOT", "SHOW_REF"}
"""Kinds of nodes that take the columns that there are."""
_LIKENESS = 0.6
"""Minimum similarity of a suggested name, 0 to 1: the default of difflib."""


class _Use(Struct, frozen=True):
    """Use of a name in a query, with its position.

    Args:
        name: in lower case.
        offset: the number of bytes before it.
        in_from: whether a function is used as a table.
        is_qualified: whether a table's name includes the schema.
    """

    name: str
    offset: int
    in_from: bool = False
    is_qualified: bool = False


class Statement(Struct, frozen=True):
    """What a query names.

    Args:
        tables: tables and views, except the query's own parts.
        functions: functions of both kinds.
        own: names of the query's own parts.
        words: possible column names, in lower case; None: it may need every column.
    """

    tables: tuple[_Use, ...]
    functions: tuple[_Use, ...]
    own: frozenset[str]
    words: frozenset[str] | None


class Named(Struct, frozen=True, eq=False):
    """Part of a catalog that a query needs.

    Args:
        tables: tables to read or compute.
        views: the query of each that it uses; none uses another.
        macros: the names of those that it uses.
    """

    tables: tuple[SourceTable, ...]
    views: Mapping[View, str]
    macros: frozenset[str]


def statement_of(tree: Any, query: str) -> Statement:
    """What a query names."""
    statements = tree["statements"]
    if len(statements) != 1:
        problem = "there is no query" if not statements else f"these are {len(statements)} queries"
        raise QueryError(problem, "Give one: select ... from ...")
    tables, functions, own = [], [], set()
    for node, scope in _scoped(statements[0]):
        _refuse(node, query)
        kind = _kind(node)
        if kind == "BASE_TABLE":
            use = _table_use(node)
            if use.is_qualified or use.name not in scope:
                tables.append(use)
        elif kind == "TABLE_FUNCTION":
            functions.append(_Use(node["function"]["function_name"].lower(), _offset(node), in_from=True))
        elif node.get("class") in ("FUNCTION", "WINDOW"):
            functions.append(_Use(node["function_name"].lower(), _offset(node)))
        own |= set(_own_names(node))
    return Statement(tuple(tables), tuple(functions), frozenset(own), _words(statements[0]))


def _scoped(tree: Any) -> Iterator[tuple[dict[str, Any], frozenset[str]]]:
    """All objects of a tree, without recursion, each with the names that `with` has defined around it.

    A part is visible to later parts and the main query, and to itself if recursive.
    """
    left: list[tuple[Any, frozenset[str]]] = [(tree, frozenset())]
    while left:
        node, scope = left.pop()
        if isinstance(node, list):
            left.extend((item, scope) for item in node)
        elif isinstance(node, dict):
            yield node, scope
            for entry in _own_parts(node):
                left.append((entry["value"], scope))
                scope |= {entry["key"].lower()}
            itself = {node["cte_name"].lower()} if _kind(node) == "RECURSIVE_CTE_NODE" else set()
            for key, value in node.items():
                if key == "function" and _kind(node) == "TABLE_FUNCTION":
                    # It stands in the tree as another function would; its arguments are what is in it.
                    value = list(value.values())
                if key != "cte_map":
                    left.append((value, scope | itself if key == "right" else scope))


def _own_parts(node: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts of a query that its `with` defines, in their order."""
    return node["cte_map"]["map"] if "cte_map" in node else []


def _own_names(node: dict[str, Any]) -> list[str]:
    """The names of these, in lower case."""
    names = [entry["key"].lower() for entry in _own_parts(node)]
    if _kind(node) == "RECURSIVE_CTE_NODE":
        names.append(node["cte_name"].lower())
    aliases = [node["alias"].lower()] if _kind(node) in _IN_FROM and node.get("alias") else []
    for name in (*names, *aliases):
        if "." in name or name.startswith(_ENGINES_OWN):
            raise QueryError(
                f"a part of a query may not be called {name}", "Choose a name without dots, such as part_1"
            )
    return names


def _words(tree: Any) -> frozenset[str] | None:
    """Return all texts of a tree, which include all column names; None if it may need every column."""
    words: set[str] = set()
    rows = {"rowid"}
    for node in _dicts(tree):
        if _kind(node) in _WHOLE_ROWS or node.get("ref_type") == "NATURAL":
            return None
        if node.get("column_name_alias"):
            return None
        if _kind(node) == "BASE_TABLE":
            rows |= {node["table_name"].lower(), str(node.get("alias") or "").lower()}
        for value in node.values():
            items = value if isinstance(value, list) else [value]
            words |= {item.lower() for item in items if isinstance(item, str)}
    columns = (node["column_names"] for node in _dicts(tree) if node.get("class") == "COLUMN_REF")
    if any(len(names) == 1 and names[0].lower() in rows for names in columns):
        # The name of a table is its whole row.
        return None
    return frozenset(words)


def _dicts(tree: Any) -> Iterator[dict[str, Any]]:
    """All objects of a tree, without recursion: a query may nest deep."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left.extend(node.values())
        elif isinstance(node, list):
            left.extend(node)


def _refuse(node: dict[str, Any], query: str) -> None:
    """Reject a node that does something else than to read."""
    kind = _kind(node)
    if "cte_map" in node and kind not in _QUERY_NODES:
        raise QueryError("this is not a read-only query", "Give one that begins with select, with or from")
    if kind == "SHOW_REF" and node.get("query") is None:
        # `describe` and `summarize` have a query; what shows the engine's own state has none.
        raise QueryError(
            "show lists what is in the engine", "tracebraid sql PATH --tables lists tables and views"
        )
    if kind == "VALUE_PARAMETER":
        raise QueryError("the query has a parameter", "Write its value", position_at(query, _offset(node)))


def _kind(node: dict[str, Any]) -> str:
    """The kind of a node; "" of a type of values, which has an object there."""
    kind = node.get("type")
    return kind if isinstance(kind, str) else ""


def _table_use(node: dict[str, Any]) -> _Use:
    parts = [node.get("catalog_name"), node.get("schema_name"), node["table_name"]]
    # DuckDB 2 has names of any length.
    path = node.get("qualified_name", {}).get("path") or parts
    name = ".".join(part for part in path if part).lower()
    return _Use(name, _offset(node), is_qualified=any([*parts[:-1], *path[:-1]]))


_NOWHERE = 2**63
"""Offset from which DuckDB means that a node has no position in the text."""


def _offset(node: dict[str, Any]) -> int:
    offset = node.get("query_location", _NOWHERE)
    return offset if isinstance(offset, int) and offset < _NOWHERE else -1


def named_by(statement: Statement, catalog: Catalog, query: str, *, with_files: bool) -> tuple[Viewable, ...]:
    """The tables and views that a statement names itself."""
    found: list[Viewable] = []
    for use in statement.tables:
        viewable = catalog.find(use.name)
        if viewable is not None and use.is_qualified == ("." in use.name):
            found.append(viewable)
        elif use.is_qualified or not (with_files and _FILES.search(use.name)):
            raise _unknown_table(use, catalog, statement, query)
    return tuple(dict.fromkeys(found))


def refuse_functions(
    statement: Statement,
    catalog: Catalog,
    query: str,
    has_function: Callable[[str], bool],
    *,
    with_files: bool,
) -> None:
    """Reject functions that access anything outside the tables: files, settings, the engine's state."""
    for use in statement.functions:
        where = position_at(query, use.offset)
        if use.in_from:
            _check_table_function(use.name, catalog, where, with_files)
        elif use.name.startswith(_ENGINES_OWN) or not (
            is_plain(use.name) or use.name in catalog.macros_by_name or not has_function(use.name)
        ):
            raise QueryError(
                f"a query may not use {use.name}: queries read only tables", "Leave it out", where
            )


def _check_table_function(name: str, catalog: Catalog, where: str, with_files: bool) -> None:
    if name in FILE_FUNCTIONS:
        if not with_files:
            raise QueryError(f"{name} reads files, and a query may not", _ALLOW, where)
    elif name not in TABLE_FUNCTIONS and name not in catalog.macros_by_name:
        allowed = sorted(TABLE_FUNCTIONS | {macro.name for macro in catalog.macros if macro.is_table})
        near = get_close_matches(name, [*allowed, *catalog.names], 3, _LIKENESS)
        advice = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(allowed)}"
        raise QueryError(f"a query may not use {name}(...) as a table", advice, where)


_ALLOW = "Allow a folder with --allow-files FOLDER, or allow_files=[folder]"


def _unknown_table(use: _Use, catalog: Catalog, statement: Statement, query: str) -> QueryError:
    near = get_close_matches(use.name, [*catalog.names, *statement.own], 3, _LIKENESS)
    near += [name for name in catalog.names if name.endswith(f".{use.name}") and name not in near]
    advice = f"Did you mean {' or '.join(near[:3])}?" if near else "tracebraid sql PATH --tables lists them"
    return QueryError(f"there is no table {use.name}", advice, position_at(query, use.offset))

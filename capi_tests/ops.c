/* Ops that a program defines, with shape functions in C. */
#include "nodes.h"
#include "pb.h"

#include "tensorflow/c/ops.h"

/* The reference puts registrations off until its registry is first used, and then dies of the bad ones. */
static void use_registry(void) { TF_DeleteBuffer(TF_GetAllOpList()); }

static void registered(TF_OpDefinitionBuilder *builder) {
  use_registry();
  TF_RegisterOpDefinition(builder, status);
  CHECK_OK(status);
}

static void not_registered(TF_OpDefinitionBuilder *builder, TF_Code code, const char *part) {
  use_registry();
  TF_RegisterOpDefinition(builder, status);
  CHECK_ERROR(status, code, part);
}

static TF_Operation *apply(TF_Graph *g, const char *type, TF_Operation *x, const char *name) {
  return unary(g, type, output(x, 0), name);
}

static void check_shape(TF_Graph *g, TF_Operation *op, int rank, const int64_t *dims) {
  int64_t actual[8] = {0};
  CHECK_INT(TF_GraphGetTensorNumDims(g, output(op, 0), status), rank);
  CHECK_OK(status);
  if (rank < 0) return;
  TF_GraphGetTensorShape(g, output(op, 0), actual, rank, status);
  CHECK_OK(status);
  for (int i = 0; i < rank; i++) CHECK_INT(actual[i], dims[i]);
}

/* ---- a shape function that hands its input on ---- */

static void unchanged(TF_ShapeInferenceContext *ctx, TF_Status *s) {
  TF_ShapeHandle *input = TF_NewShapeHandle();
  TF_ShapeInferenceContextGetInput(ctx, 0, input, s);
  if (TF_GetCode(s) == TF_OK) TF_ShapeInferenceContextSetOutput(ctx, 0, input, s);
  TF_DeleteShapeHandle(input);
}

static TF_OpDefinitionBuilder *like_identity(const char *name) {
  TF_OpDefinitionBuilder *builder = TF_NewOpDefinitionBuilder(name);
  TF_OpDefinitionBuilderAddAttr(builder, "T: {float, int32} = DT_FLOAT");
  TF_OpDefinitionBuilderAddAttr(builder, "n: int >= 2 = 3");
  TF_OpDefinitionBuilderAddInput(builder, "x: T");
  TF_OpDefinitionBuilderAddOutput(builder, "y: T");
  TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, &unchanged);
  return builder;
}

static void a_new_op(void) {
  registered(like_identity("OpsTestNew"));
  TF_Graph *g = TF_NewGraph();
  const int64_t dims[3] = {2, -1, 4};
  TF_Operation *x = shaped(g, TF_INT32, dims, 3, "x");
  TF_Operation *y = apply(g, "OpsTestNew", x, "y");
  check_shape(g, y, 3, dims);
  check_shape(g, apply(g, "OpsTestNew", placeholder(g, TF_FLOAT, "u"), "z"), -1, NULL);
  CHECK_INT(TF_OperationOutputType(output(y, 0)), TF_INT32);
  CHECK_STR(TF_OperationOpType(y), "OpsTestNew");
  int64_t n = 0;
  TF_OperationGetAttrInt(y, "n", &n, status);
  CHECK_OK(status);
  CHECK_INT(n, 3);

  TF_OperationDescription *desc = TF_NewOperation(g, "OpsTestNew", "bad");
  TF_AddInput(desc, output(x, 0));
  TF_SetAttrInt(desc, "n", 1);
  finish_fails(desc, TF_INVALID_ARGUMENT, "Value for attr 'n' of 1 must be at least minimum 2");
  desc = TF_NewOperation(g, "OpsTestNew", "bad_type");
  TF_AddInput(desc, output(placeholder(g, TF_DOUBLE, "d"), 0));
  finish_fails(desc, TF_INVALID_ARGUMENT, "not in the list of allowed values");
  TF_DeleteGraph(g);
}

/* Export the graph and import it into another one: the shape function runs again. */
static void imports(void) {
  registered(like_identity("OpsTestImport"));
  TF_Graph *g = TF_NewGraph();
  const int64_t dims[1] = {7};
  apply(g, "OpsTestImport", shaped(g, TF_FLOAT, dims, 1, "x"), "y");
  TF_Buffer *def = TF_NewBuffer();
  TF_GraphToGraphDef(g, def, status);
  CHECK_OK(status);
  TF_Graph *other = TF_NewGraph();
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(other, def, options, status);
  CHECK_OK(status);
  TF_Operation *y = TF_GraphOperationByName(other, "y");
  CHECK(y != NULL);
  check_shape(other, y, 1, dims);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(def);
  TF_DeleteGraph(other);
  TF_DeleteGraph(g);
}

/* OpDef: 1 name, 2 input_arg, 3 output_arg, 4 attr, 8 deprecation, 16 is_aggregate, 17 is_stateful, 18 is_commutative,
 * 19 allows_uninitialized_input. */
static void definitions(void) {
  TF_OpDefinitionBuilder *builder = like_identity("OpsTestFlags");
  TF_OpDefinitionBuilderSetIsStateful(builder, false); /* sets the flag all the same */
  TF_OpDefinitionBuilderSetIsCommutative(builder, true);
  TF_OpDefinitionBuilderSetIsAggregate(builder, true);
  TF_OpDefinitionBuilderSetAllowsUninitializedInput(builder, true);
  TF_OpDefinitionBuilderDeprecated(builder, 3000, "use another");
  registered(builder);
  TF_Graph *g = TF_NewGraph();
  TF_Buffer *buffer = TF_NewBuffer();
  TF_GraphGetOpDef(g, "OpsTestFlags", buffer, status);
  CHECK_OK(status);
  PbView op = pb_view(buffer), part;
  CHECK(pb_string_is(op, 1, 0, "OpsTestFlags"));
  CHECK_INT(pb_count(op, 2), 1);
  CHECK_INT(pb_count(op, 3), 1);
  CHECK_INT(pb_count(op, 4), 2);
  CHECK_INT(pb_find_int(op, 16), 1);
  CHECK_INT(pb_find_int(op, 17), 1);
  CHECK_INT(pb_find_int(op, 18), 1);
  CHECK_INT(pb_find_int(op, 19), 1);
  CHECK(pb_find(op, 8, 0, &part));
  CHECK_INT(pb_find_int(part, 1), 3000);
  CHECK(pb_string_is(part, 2, 0, "use another"));
  /* The list of all ops has the same definition. */
  TF_Buffer *all = TF_GetAllOpList();
  bool found = false;
  PbView rest = pb_view(all);
  for (uint64_t number; rest.length > 0;)
    if (pb_next(&rest, &part, &number) == 1 && part.length == buffer->length)
      found = found || memcmp(part.data, buffer->data, part.length) == 0;
  CHECK(found);
  TF_DeleteBuffer(all);
  TF_DeleteBuffer(buffer);
  TF_DeleteGraph(g);
}

static void deprecated(void) {
  TF_OpDefinitionBuilder *builder = like_identity("OpsTestOld");
  TF_OpDefinitionBuilderDeprecated(builder, 8, "use new");
  registered(builder);
  TF_Graph *g = TF_NewGraph();
  TF_OperationDescription *desc = TF_NewOperation(g, "OpsTestOld", "y");
  TF_AddInput(desc, output(placeholder(g, TF_FLOAT, "x"), 0));
  finish_fails(desc, TF_UNIMPLEMENTED, "It has been removed in version 8. use new.");
  TF_DeleteGraph(g);
}

static void no_kernel(void) {
  registered(like_identity("OpsTestNoKernel"));
  TF_Graph *g = TF_NewGraph();
  TF_Operation *y = apply(g, "OpsTestNoKernel", constant(g, f32_scalar(1), "c"), "y");
  TF_Session *session = new_session(g);
  CHECK(try_fetch(session, output(y, 0)) == NULL);
  CHECK_ERROR(status, TF_INVALID_ARGUMENT, "No OpKernel was registered to support Op 'OpsTestNoKernel'");
  delete_session(session);
  TF_DeleteGraph(g);
}

/* ---- everything that a shape function may ask; what it learns is checked after the call ---- */

typedef struct {
  TF_Code code;
  char message[160];
} Outcome;

static void keep(Outcome *outcome, TF_Status *s) {
  outcome->code = TF_GetCode(s);
  snprintf(outcome->message, sizeof outcome->message, "%s", TF_Message(s));
}

static struct {
  int64_t inputs, rank, concat_rank, scalar_rank, subshape_rank[3], dims[5];
  int rank_known, fresh_rank_known, fresh_known, dim_known[5];
  int64_t fresh_value;
  TF_DataType type;
  Outcome input, no_input, negative_input, rank_3, rank_2, least, most, large, range, order, past, no_attr, int_attr;
  Outcome no_output, set;
} seen;

static void ask(TF_ShapeInferenceContext *ctx, TF_Status *s) {
  TF_Status *t = TF_NewStatus();
  TF_ShapeHandle *x = TF_NewShapeHandle(), *r = TF_NewShapeHandle();
  TF_DimensionHandle *d = TF_NewDimensionHandle();
  seen.fresh_rank_known = TF_ShapeInferenceContextRankKnown(ctx, x);
  seen.fresh_known = TF_DimensionHandleValueKnown(d);
  seen.fresh_value = TF_DimensionHandleValue(d);
  seen.inputs = TF_ShapeInferenceContextNumInputs(ctx);
  TF_ShapeInferenceContextGetInput(ctx, 7, x, t);
  keep(&seen.no_input, t);
  TF_ShapeInferenceContextGetInput(ctx, -1, x, t);
  keep(&seen.negative_input, t);
  TF_ShapeInferenceContextGetInput(ctx, 0, x, t);
  keep(&seen.input, t);
  seen.rank = TF_ShapeInferenceContextRank(ctx, x);
  seen.rank_known = TF_ShapeInferenceContextRankKnown(ctx, x);
  for (int i = -1; i < 4; i++) {
    TF_ShapeInferenceContextDim(ctx, x, i, d);
    seen.dims[i + 1] = TF_DimensionHandleValue(d);
    seen.dim_known[i + 1] = TF_DimensionHandleValueKnown(d);
  }
  TF_ShapeInferenceContextWithRank(ctx, x, 3, r, t);
  keep(&seen.rank_3, t);
  TF_ShapeInferenceContextWithRank(ctx, x, 2, r, t);
  keep(&seen.rank_2, t);
  TF_ShapeInferenceContextWithRankAtLeast(ctx, x, 4, r, t);
  keep(&seen.least, t);
  TF_ShapeInferenceContextWithRankAtMost(ctx, x, -1, r, t);
  keep(&seen.most, t);
  TF_ShapeInferenceContextWithRankAtMost(ctx, x, (int64_t)1 << 40, r, t);
  keep(&seen.large, t);
  static const int64_t parts[3][2] = {{0, INT64_MAX}, {-2, -1}, {5, 6}};
  for (int i = 0; i < 3; i++) {
    TF_ShapeInferenceContextSubshape(ctx, x, parts[i][0], parts[i][1], r, t);
    keep(&seen.past, t);
    seen.subshape_rank[i] = TF_ShapeInferenceContextRank(ctx, r);
  }
  TF_ShapeInferenceContextSubshape(ctx, x, -7, 2, r, t);
  keep(&seen.range, t);
  TF_ShapeInferenceContextSubshape(ctx, x, -1, 1, r, t);
  keep(&seen.order, t);
  TF_ShapeInferenceContext_GetAttrType(ctx, "T", &seen.type, t);
  TF_DataType unused;
  TF_ShapeInferenceContext_GetAttrType(ctx, "nope", &unused, t);
  keep(&seen.no_attr, t);
  TF_ShapeInferenceContext_GetAttrType(ctx, "n", &unused, t);
  keep(&seen.int_attr, t);
  TF_ShapeHandle *vector = TF_ShapeInferenceContextVectorFromSize(ctx, 5), *scalar = TF_ShapeInferenceContextScalar(ctx);
  seen.scalar_rank = TF_ShapeInferenceContextRank(ctx, scalar);
  TF_ShapeInferenceContextConcatenateShapes(ctx, x, vector, r, t);
  seen.concat_rank = TF_ShapeInferenceContextRank(ctx, r);
  if (is_tfcore()) { /* the reference writes out of bounds */
    TF_ShapeInferenceContextSetOutput(ctx, 1, r, t);
    keep(&seen.no_output, t);
  }
  TF_ShapeInferenceContextSetOutput(ctx, 0, r, t);
  keep(&seen.set, t);
  TF_DeleteShapeHandle(vector);
  TF_DeleteShapeHandle(scalar);
  TF_DeleteShapeHandle(x);
  TF_DeleteShapeHandle(r);
  TF_DeleteDimensionHandle(d);
  TF_DeleteStatus(t);
  (void)s;
}

static TF_OpDefinitionBuilder *asking(const char *name) {
  TF_OpDefinitionBuilder *builder = TF_NewOpDefinitionBuilder(name);
  TF_OpDefinitionBuilderAddAttr(builder, "T: type");
  TF_OpDefinitionBuilderAddAttr(builder, "n: int = 3");
  TF_OpDefinitionBuilderAddInput(builder, "x: T");
  TF_OpDefinitionBuilderAddOutput(builder, "y: T");
  TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, &ask);
  return builder;
}

static void check_outcome(const Outcome *outcome, TF_Code code, const char *message) {
  CHECK_INT(outcome->code, code);
  if (strncmp(outcome->message, message, strlen(message)) != 0) CHECK_FAIL("\"%s\", not \"%s\"", outcome->message, message);
}

static void what_a_shape_function_sees(void) {
  registered(asking("OpsTestAsk"));
  TF_Graph *g = TF_NewGraph();
  const int64_t dims[3] = {2, -1, 4}, result[4] = {2, -1, 4, 5};
  TF_Operation *y = apply(g, "OpsTestAsk", shaped(g, TF_FLOAT, dims, 3, "x"), "y");
  check_shape(g, y, 4, result);
  CHECK_INT(seen.fresh_rank_known, 0);
  CHECK_INT(seen.fresh_known, 0);
  CHECK_INT(seen.fresh_value, 0);
  CHECK_INT(seen.inputs, 1);
  CHECK_INT(seen.rank, 3);
  CHECK_INT(seen.rank_known, 1);
  /* Dimensions -1 to 3; the last does not exist. */
  static const int64_t values[5] = {4, 2, -1, 4, 0};
  static const int known[5] = {1, 1, 0, 1, 0};
  for (int i = 0; i < 5; i++) {
    CHECK_INT(seen.dims[i], values[i]);
    CHECK_INT(seen.dim_known[i], known[i]);
  }
  CHECK_INT(seen.scalar_rank, 0);
  CHECK_INT(seen.concat_rank, 4);
  CHECK_INT(seen.subshape_rank[0], 3);
  CHECK_INT(seen.subshape_rank[1], 1);
  CHECK_INT(seen.subshape_rank[2], 0);
  CHECK_INT(seen.type, TF_FLOAT);
  check_outcome(&seen.no_input, TF_INVALID_ARGUMENT, "input index out of range");
  check_outcome(&seen.negative_input, TF_INVALID_ARGUMENT, "input index out of range");
  check_outcome(&seen.input, TF_OK, "");
  check_outcome(&seen.rank_3, TF_OK, "");
  check_outcome(&seen.rank_2, TF_INVALID_ARGUMENT, "Shape must be rank 2 but is rank 3");
  check_outcome(&seen.least, TF_INVALID_ARGUMENT, "Shape must be at least rank 4 but is rank 3");
  check_outcome(&seen.most, TF_INVALID_ARGUMENT, "Shape must be at most rank -1 but is rank 3");
  check_outcome(&seen.large, TF_INVALID_ARGUMENT, "Rank cannot exceed kint32max");
  check_outcome(&seen.past, TF_OK, "");
  check_outcome(&seen.range, TF_INVALID_ARGUMENT, "Subshape start out of bounds: -7, for shape with rank 3");
  check_outcome(&seen.order, TF_INVALID_ARGUMENT,
                "Subshape must have computed start <= end, but is 2 and 1 (computed from start -1 and end 1 over shape "
                "with rank 3)");
  check_outcome(&seen.no_attr, TF_NOT_FOUND, "No attr named 'nope' in NodeDef:");
  check_outcome(&seen.int_attr, TF_INVALID_ARGUMENT, "AttrValue had value with type 'int' when 'type' expected");
  check_outcome(&seen.set, TF_OK, "");
  if (is_tfcore()) check_outcome(&seen.no_output, TF_INVALID_ARGUMENT, "output index out of range");

  /* Of an unknown shape nothing is wrong. */
  y = apply(g, "OpsTestAsk", placeholder(g, TF_FLOAT, "u"), "z");
  check_shape(g, y, -1, NULL);
  CHECK_INT(seen.rank, -1);
  CHECK_INT(seen.rank_known, 0);
  CHECK_INT(seen.dims[1], 0);
  CHECK_INT(seen.subshape_rank[1], -1);
  CHECK_INT(seen.concat_rank, -1);
  check_outcome(&seen.rank_2, TF_OK, "");
  check_outcome(&seen.least, TF_OK, "");
  check_outcome(&seen.most, TF_OK, "");
  check_outcome(&seen.range, TF_OK, "");
  TF_DeleteGraph(g);
}

/* ---- errors ---- */

static void fails(TF_ShapeInferenceContext *ctx, TF_Status *s) {
  (void)ctx;
  TF_SetStatus(s, TF_DATA_LOSS, "my words");
}

static void errors_reach_the_user(void) {
  TF_OpDefinitionBuilder *builder = TF_NewOpDefinitionBuilder("OpsTestFails");
  TF_OpDefinitionBuilderAddInput(builder, "x: float");
  TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, &fails);
  registered(builder);
  TF_Graph *g = TF_NewGraph();
  const int64_t dims[2] = {2, -1};
  TF_OperationDescription *desc = TF_NewOperation(g, "OpsTestFails", "e");
  TF_AddInput(desc, output(shaped(g, TF_FLOAT, dims, 2, "x"), 0));
  finish_fails(desc, TF_DATA_LOSS, "my words for '{{node e}} = OpsTestFails[](x)' with input shapes: [2,?].");
  CHECK(TF_GraphOperationByName(g, "e") == NULL);
  TF_DeleteGraph(g);
}

static void unknown(TF_ShapeInferenceContext *ctx, TF_Status *s) { TF_ShapeInferenceContextSetUnknownShape(ctx, s); }

static void silent(TF_ShapeInferenceContext *ctx, TF_Status *s) { (void)ctx, (void)s; }

static void unknown_outputs(void) {
  void (*const functions[2])(TF_ShapeInferenceContext *, TF_Status *) = {&unknown, &silent};
  static const char *const names[2] = {"OpsTestUnknown", "OpsTestSilent"};
  TF_Graph *g = TF_NewGraph();
  for (int i = 0; i < 2; i++) {
    TF_OpDefinitionBuilder *builder = TF_NewOpDefinitionBuilder(names[i]);
    TF_OpDefinitionBuilderAddOutput(builder, "y: float");
    TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, functions[i]);
    registered(builder);
    check_shape(g, finish(TF_NewOperation(g, names[i], names[i])), -1, NULL);
  }
  TF_DeleteGraph(g);
}

static void without_a_shape_function(void) {
  TF_OpDefinitionBuilder *builder = TF_NewOpDefinitionBuilder("OpsTestShapeless");
  TF_OpDefinitionBuilderAddOutput(builder, "y: float");
  registered(builder);
  TF_Graph *g = TF_NewGraph();
  finish_fails(TF_NewOperation(g, "OpsTestShapeless", "y"), TF_INVALID_ARGUMENT,
               "No shape inference function exists for op 'OpsTestShapeless', did you forget to define it?");
  TF_DeleteGraph(g);
}

static void bad_definitions(void) {
  TF_DeleteOpDefinitionBuilder(like_identity("OpsTestNever"));
  if (!is_tfcore()) return; /* the reference aborts */
  not_registered(TF_NewOpDefinitionBuilder("AddV2"), TF_ALREADY_EXISTS, "Op with name AddV2");
  registered(like_identity("OpsTestTwice"));
  not_registered(like_identity("OpsTestTwice"), TF_ALREADY_EXISTS, "Op with name OpsTestTwice");
  not_registered(TF_NewOpDefinitionBuilder("noCamel"), TF_INVALID_ARGUMENT, "Invalid name: noCamel");
  TF_OpDefinitionBuilder *builder = TF_NewOpDefinitionBuilder("OpsTestBad");
  TF_OpDefinitionBuilderAddInput(builder, "x: Nothing");
  not_registered(builder, TF_INVALID_ARGUMENT, "Reference to unknown attr 'Nothing'");
  builder = TF_NewOpDefinitionBuilder("OpsTestBad");
  TF_OpDefinitionBuilderAddAttr(builder, "n: int = 'a'");
  not_registered(builder, TF_INVALID_ARGUMENT, "Could not parse default value ''a''");
  builder = like_identity("OpsTestBad");
  TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, &fails);
  not_registered(builder, TF_INVALID_ARGUMENT, "SetShapeFn called twice for Op OpsTestBad");
  /* A failed registration leaves nothing behind. */
  registered(like_identity("OpsTestBad"));
  not_registered(NULL, TF_INVALID_ARGUMENT, "null");
  CHECK(TF_NewOpDefinitionBuilder(NULL) == NULL);
}

CASES(CASE(a_new_op), CASE(imports), CASE(definitions), CASE(deprecated), CASE(no_kernel),
      CASE(what_a_shape_function_sees), CASE(errors_reach_the_user), CASE(unknown_outputs),
      CASE(without_a_shape_function), CASE(bad_definitions))

"""Allowed operations: names of operations of TensorFlow and tensorflow-text that only compute.

None of them reads or writes a file, except a table's vocabulary, which `graph_check` checks separately; none uses the
network, runs Python or waits for others. The list covers our exports, Google's published text models and Keras's
layers. Operations that are new in a TensorFlow release are not included until they have been reviewed.
"""

COMPUTES = frozenset(
    name
    for group in (
        # arithmetic, comparison, reduction
        "Abs AccumulateNV2 Acos Acosh Add AddN AddV2 All Angle Any ApproximateEqual ArgMax ArgMin Asin Asinh Atan "
        "Atan2 Atanh BatchMatMul BatchMatMulV2 BatchMatMulV3 Betainc Bincount Bucketize Cast Ceil ClipByValue "
        "Complex ComplexAbs Conj Cos Cosh Cross Cumprod Cumsum CumulativeLogsumexp DenseBincount Digamma Div "
        "DivNoNan Equal Erf Erfc Erfinv EuclideanNorm Exp Expm1 Floor FloorDiv FloorMod Greater GreaterEqual "
        "HistogramFixedWidth Igamma IgammaGradA Igammac Imag Inv InvGrad IsFinite IsInf IsNan Less LessEqual "
        "Lgamma LinSpace Log Log1p LogicalAnd LogicalNot LogicalOr MatMul Max Maximum Mean Min Minimum Mod Mul "
        "MulNoNan Ndtri Neg NextAfter NotEqual Polygamma Pow Prod QuantizeDownAndShrinkRange QuantizedAdd "
        "QuantizedMatMul QuantizedMul RaggedBincount Range Real RealDiv Reciprocal ReciprocalGrad "
        "RequantizationRange RequantizationRangePerChannel Requantize RequantizePerChannel Rint Round Rsqrt "
        "RsqrtGrad SegmentMax SegmentMaxV2 SegmentMean SegmentMin SegmentMinV2 SegmentProd SegmentProdV2 "
        "SegmentSum SegmentSumV2 Select SelectV2 Sigmoid SigmoidGrad Sign Sin Sinh SobolSample SparseBincount "
        "SparseMatMul SparseSegmentMean SparseSegmentMeanGrad SparseSegmentMeanGradV2 "
        "SparseSegmentMeanWithNumSegments SparseSegmentSqrtN SparseSegmentSqrtNGrad SparseSegmentSqrtNGradV2 "
        "SparseSegmentSqrtNWithNumSegments SparseSegmentSum SparseSegmentSumGrad SparseSegmentSumGradV2 "
        "SparseSegmentSumWithNumSegments Sqrt SqrtGrad Square SquaredDifference Sub Sum Tan Tanh TanhGrad "
        "TruncateDiv TruncateMod UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum "
        "Xdivy Xlog1py Xlogy Zeta",
        # arrays
        "BatchMatrixBandPart BatchMatrixDiag BatchMatrixDiagPart BatchMatrixSetDiag BatchToSpace BatchToSpaceND "
        "Bitcast BroadcastArgs BroadcastGradientArgs BroadcastTo CheckNumerics CheckNumericsV2 Concat "
        "ConcatOffset ConcatV2 ConjugateTranspose Const DebugGradientIdentity DeepCopy DepthToSpace Dequantize "
        "Diag DiagPart EditDistance Empty EnsureShape ExpandDims ExtractImagePatches ExtractVolumePatches "
        "FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars "
        "FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannel "
        "FakeQuantWithMinMaxVarsPerChannelGradient Fill Fingerprint Gather GatherNd GatherV2 GuaranteeConst "
        "Identity IdentityN InplaceAdd InplaceSub InplaceUpdate InvertPermutation ListDiff LowerBound "
        "MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 "
        "MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 MirrorPad MirrorPadGrad OneHot OnesLike Pack Pad PadV2 "
        "ParallelConcat Placeholder PlaceholderV2 PlaceholderWithDefault PreventGradient QuantizeAndDequantize "
        "QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4 QuantizeAndDequantizeV4Grad "
        "QuantizeV2 QuantizedConcat QuantizedInstanceNorm QuantizedReshape Rank Reshape "
        "ResourceStridedSliceAssign Reverse ReverseSequence ReverseV2 Roll ScatterNd ScatterNdNonAliasingAdd "
        "Shape ShapeN Size Slice Snapshot SpaceToBatch SpaceToBatchND SpaceToDepth Split SplitV Squeeze "
        "StopGradient StridedSlice StridedSliceGrad TensorScatterAdd TensorScatterMax TensorScatterMin "
        "TensorScatterSub TensorScatterUpdate TensorStridedSliceUpdate Tile TileGrad Transpose Unique UniqueV2 "
        "UniqueWithCounts UniqueWithCountsV2 Unpack UnravelIndex UpperBound Where ZerosLike",
        # layers of networks
        "ApproxTopK AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad BatchNormWithGlobalNormalization "
        "BatchNormWithGlobalNormalizationGrad BiasAdd BiasAddGrad BiasAddV1 Conv Conv2D Conv2DBackpropFilter "
        "Conv2DBackpropFilterV2 Conv2DBackpropInput Conv2DBackpropInputV2 Conv3D Conv3DBackpropFilter "
        "Conv3DBackpropFilterV2 Conv3DBackpropInput Conv3DBackpropInputV2 DataFormatDimMap DataFormatVecPermute "
        "DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput Dilation2D "
        "Dilation2DBackpropFilter Dilation2DBackpropInput Elu EluGrad FractionalAvgPool FractionalAvgPoolGrad "
        "FractionalMaxPool FractionalMaxPoolGrad FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 "
        "FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3 FusedPadConv2D FusedResizeAndPadConv2D InTopK "
        "InTopKV2 IsotonicRegression L2Loss LRN LRNGrad LeakyRelu LeakyReluGrad LogSoftmax MaxPool MaxPool3D "
        "MaxPool3DGrad MaxPool3DGradGrad MaxPoolGrad MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradGradWithArgmax "
        "MaxPoolGradV2 MaxPoolGradWithArgmax MaxPoolV2 MaxPoolWithArgmax NthElement QuantizedAvgPool "
        "QuantizedBatchNormWithGlobalNormalization QuantizedBiasAdd QuantizedConv2D QuantizedConv2DAndRelu "
        "QuantizedConv2DAndReluAndRequantize QuantizedConv2DAndRequantize QuantizedConv2DPerChannel "
        "QuantizedConv2DWithBias QuantizedConv2DWithBiasAndRelu QuantizedConv2DWithBiasAndReluAndRequantize "
        "QuantizedConv2DWithBiasAndRequantize QuantizedConv2DWithBiasSignedSumAndReluAndRequantize "
        "QuantizedConv2DWithBiasSumAndRelu QuantizedConv2DWithBiasSumAndReluAndRequantize "
        "QuantizedDepthwiseConv2D QuantizedDepthwiseConv2DWithBias QuantizedDepthwiseConv2DWithBiasAndRelu "
        "QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize QuantizedMatMulWithBias "
        "QuantizedMatMulWithBiasAndDequantize QuantizedMatMulWithBiasAndRelu "
        "QuantizedMatMulWithBiasAndReluAndRequantize QuantizedMatMulWithBiasAndRequantize QuantizedMaxPool "
        "QuantizedRelu QuantizedRelu6 QuantizedReluX Relu Relu6 Relu6Grad ReluGrad Selu SeluGrad Softmax "
        "SoftmaxCrossEntropyWithLogits Softplus SoftplusGrad Softsign SoftsignGrad "
        "SparseSoftmaxCrossEntropyWithLogits TopK TopKV2",
        # text
        "AsString DecodeBase64 EncodeBase64 ReduceJoin RegexFullMatch RegexReplace StaticRegexFullMatch "
        "StaticRegexReplace StringFormat StringJoin StringLength StringLower StringNGrams StringSplit "
        "StringSplitV2 StringStrip StringToHashBucket StringToHashBucketFast StringToHashBucketStrong StringUpper "
        "Substr UnicodeDecode UnicodeDecodeWithOffsets UnicodeEncode UnicodeScript UnicodeTranscode "
        "UnsortedSegmentJoin",
        # bits
        "BitwiseAnd BitwiseOr BitwiseXor Invert LeftShift PopulationCount RightShift",
        # matrices
        "BandedTriangularSolve BatchCholesky BatchCholeskyGrad BatchMatrixDeterminant BatchMatrixInverse "
        "BatchMatrixSolve BatchMatrixSolveLs BatchMatrixTriangularSolve BatchSelfAdjointEig BatchSelfAdjointEigV2 "
        "BatchSvd Cholesky CholeskyGrad Eig Einsum LogMatrixDeterminant Lu MatrixDeterminant MatrixExponential "
        "MatrixInverse MatrixLogarithm MatrixSolve MatrixSolveLs MatrixSquareRoot MatrixTriangularSolve Qr "
        "SelfAdjointEig SelfAdjointEigV2 Svd TridiagonalMatMul TridiagonalSolve",
        # sparse tensors
        "AddManySparseToTensorsMap AddSparseToTensorsMap DeserializeManySparse DeserializeSparse "
        "SerializeManySparse SerializeSparse SparseAdd SparseAddGrad SparseConcat SparseCross SparseCrossHashed "
        "SparseCrossV2 SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul SparseFillEmptyRows "
        "SparseFillEmptyRowsGrad SparseReduceMax SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse "
        "SparseReorder SparseReshape SparseSlice SparseSliceGrad SparseSoftmax SparseSparseMaximum "
        "SparseSparseMinimum SparseSplit SparseTensorDenseAdd SparseTensorDenseMatMul SparseToDense "
        "TakeManySparseFromTensorsMap",
        # special functions
        "BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 "
        "BesselY1 Dawsn Expint FresnelCos FresnelSin Spence",
        # random numbers from a seed
        "StatelessMultinomial StatelessParameterizedTruncatedNormal StatelessRandomBinomial "
        "StatelessRandomGammaV2 StatelessRandomGammaV3 StatelessRandomGetAlg StatelessRandomGetKeyCounter "
        "StatelessRandomGetKeyCounterAlg StatelessRandomNormal StatelessRandomNormalV2 StatelessRandomPoisson "
        "StatelessRandomUniform StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 "
        "StatelessRandomUniformInt StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessShuffle "
        "StatelessTruncatedNormal StatelessTruncatedNormalV2",
        # calls, branches and loops
        "Case If PartitionedCall StatefulPartitionedCall StatelessCase StatelessIf StatelessWhile While",
        # variables
        "AssignAddVariableOp AssignSubVariableOp AssignVariableOp DestroyResourceOp DisableCopyOnRead "
        "ReadVariableOp ResourceGather ResourceGatherNd ResourceScatterAdd ResourceScatterDiv ResourceScatterMax "
        "ResourceScatterMin ResourceScatterMul ResourceScatterSub ResourceScatterUpdate VarHandleOp "
        "VarIsInitializedOp VariableShape",
        # tables
        "AnonymousHashTable AnonymousMutableDenseHashTable AnonymousMutableHashTable "
        "AnonymousMutableHashTableOfTensors HashTableV2 InitializeTableFromTextFileV2 InitializeTableV2 "
        "LookupTableExportV2 LookupTableFindV2 LookupTableImportV2 LookupTableInsertV2 LookupTableRemoveV2 "
        "LookupTableSizeV2 MutableDenseHashTableV2 MutableHashTableOfTensorsV2 MutableHashTableV2",
        # lists of tensors
        "EmptyTensorList TensorListConcat TensorListConcatLists TensorListConcatV2 TensorListElementShape "
        "TensorListFromTensor TensorListGather TensorListGetItem TensorListLength TensorListPopBack "
        "TensorListPushBack TensorListPushBackBatch TensorListReserve TensorListResize TensorListScatter "
        "TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit TensorListStack",
        # ragged tensors
        "RaggedCross RaggedFillEmptyRows RaggedFillEmptyRowsGrad RaggedGather RaggedRange RaggedTensorFromVariant "
        "RaggedTensorToSparse RaggedTensorToTensor RaggedTensorToVariant RaggedTensorToVariantGradient",
        # parsing of examples and numbers
        "DecodeCSV DecodeCompressed DecodeJSONExample DecodePaddedRaw DecodeRaw ParseExample ParseExampleV2 "
        "ParseSequenceExample ParseSequenceExampleV2 ParseSingleExample ParseSingleSequenceExample ParseTensor "
        "SerializeTensor StringToNumber",
        # order
        "ControlTrigger Merge NoOp Switch",
        # partitions and lists
        "DynamicPartition DynamicStitch ParallelDynamicStitch TensorArrayCloseV3 TensorArrayConcatV3 "
        "TensorArrayGatherV3 TensorArrayGradV3 TensorArrayReadV3 TensorArrayScatterV3 TensorArraySizeV3 "
        "TensorArraySplitV3 TensorArrayV3 TensorArrayWriteV3",
        # random numbers
        "Multinomial ParameterizedTruncatedNormal RandomGamma RandomGammaGrad RandomPoisson RandomPoissonV2 "
        "RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt TruncatedNormal",
        # checks
        "Assert",
        # tensorflow-text
        "CaseFoldUTF8 ConstrainedSequence FastBertNormalize FastWordpieceTokenizeWithOffsets FindSourceOffsets "
        "MaxSpanningTree NormalizeUTF8 NormalizeUTF8WithOffsetsMap PhraseTokenize RegexSplitWithOffsets RougeL "
        "SentenceFragments SentenceFragmentsV2 SentencepieceDetokenizeOp SentencepieceIdToStringOp "
        "SentencepieceOp SentencepieceStringToIdOp SentencepieceTokenizeOp SentencepieceTokenizeWithOffsetsOp "
        "SentencepieceVocabSizeOp SplitMergeTokenizeWithOffsets TFText>BoiseTagsToOffsets "
        "TFText>ByteSplitByOffsets TFText>ByteSplitWithOffsets TFText>FastSentencepieceDetokenize "
        "TFText>FastSentencepieceTokenize TFText>FastWordpieceDetokenize TFText>NgramsStringJoin "
        "TFText>OffsetsToBoiseTags TFText>PhraseDetokenize TFText>RoundRobinGenerateMasks TFText>RoundRobinTrim "
        "TFText>Utf8Binarize TFText>WhitespaceTokenizeWithOffsetsV2 TokenizerFromLogits "
        "UnicodeScriptTokenizeWithOffsets WhitespaceTokenizeWithOffsets WordpieceTokenizeWithOffsets",
        # made by TensorFlow's oneDNN integration; int8 exports have it
        "_QuantizedMatMul",
    )
    for name in group.split()
)

# Operations that may run when a model is loaded: they create tables and variables, but nothing sized by a number.
LOADS = COMPUTES & {
    "AnonymousHashTable", "AnonymousMutableHashTable", "AssignVariableOp", "Const", "DestroyResourceOp",
    "DisableCopyOnRead", "HashTableV2", "Identity", "InitializeTableFromTextFileV2", "InitializeTableV2",
    "LookupTableFindV2", "LookupTableImportV2", "LookupTableSizeV2", "MutableHashTableV2", "NoOp", "PartitionedCall",
    "Placeholder", "ReadVariableOp", "SentencepieceOp", "StatefulPartitionedCall", "VarHandleOp", "VarIsInitializedOp",
}  # fmt: skip

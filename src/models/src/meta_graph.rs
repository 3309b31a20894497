//! A meta graph whose GraphDef stays in the bytes that it was read from.

use std::borrow::Cow;
use std::path::Path;

use tfcore_base::{Result, failed_precondition, invalid};
use tfcore_proto::wire::{Fields, Malformed};
use tfcore_proto::{
    self as proto, AssetFileDef, Message, MetaGraphDef, SignatureDef, collection_def, tensor_info,
};

/// The field `MetaGraphDef.graph_def`.
const GRAPH_DEF: u32 = 2;

const INIT_OP_SIGNATURE: &str = "__saved_model_init_op";
const MAIN_OP_COLLECTION: &str = "saved_model_main_op";
const LEGACY_INIT_OP_COLLECTION: &str = "legacy_init_op";
const ASSETS_COLLECTION: &str = "saved_model_assets";
const ASSET_TYPE: &str = "tensorflow.AssetFileDef";

/// A graph with its signatures, collections and assets.
pub struct MetaGraph<'a> {
    bytes: &'a [u8],
    graph: Cow<'a, [u8]>,
    /// Everything but the graph.
    def: MetaGraphDef,
}

impl<'a> MetaGraph<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> std::result::Result<MetaGraph<'a>, Malformed> {
        let mut graph: Cow<'a, [u8]> = Cow::Borrowed(&[]);
        let mut others = Vec::new();
        let mut fields = Fields::new(bytes);
        loop {
            let before = fields.rest();
            let Some((number, value)) = fields.next()? else { break };
            if number == GRAPH_DEF {
                let part = value.bytes()?;
                // A message field that occurs twice is the two merged, which is the two concatenated.
                match graph.is_empty() {
                    true => graph = Cow::Borrowed(part),
                    false => graph.to_mut().extend_from_slice(part),
                }
            } else {
                others.extend_from_slice(&before[..before.len() - fields.rest().len()]);
            }
        }
        let def = MetaGraphDef::decode(&others[..])?;
        Ok(MetaGraph { bytes, graph, def })
    }

    /// The serialized MetaGraphDef.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The serialized GraphDef.
    pub fn graph_def(&self) -> &[u8] {
        &self.graph
    }

    /// Everything but the graph.
    pub fn def(&self) -> &MetaGraphDef {
        &self.def
    }

    pub fn tags(&self) -> &[String] {
        self.def.meta_info_def.as_ref().map_or(&[], |info| &info.tags)
    }

    pub fn signature(&self, name: &str) -> Option<&SignatureDef> {
        self.def.signature_def.get(name)
    }

    /// The op that prepares tables and the like after variables have been restored, if there is one.
    ///
    /// # Errors
    /// `FailedPrecondition` if the entry that should name it does not.
    pub(crate) fn init_op(&self, directory: &Path) -> Result<Option<&str>> {
        if let Some(signature) = self.signature(INIT_OP_SIGNATURE) {
            let output = signature
                .outputs
                .get(INIT_OP_SIGNATURE)
                .ok_or_else(|| failed_precondition!("Could not find output {INIT_OP_SIGNATURE}"))?;
            return Ok(Some(tensor_name(output)));
        }
        let collections = &self.def.collection_def;
        let collection = collections
            .get(MAIN_OP_COLLECTION)
            .or_else(|| collections.get(LEGACY_INIT_OP_COLLECTION));
        let Some(collection) = collection else { return Ok(None) };
        match &collection.kind {
            Some(collection_def::Kind::NodeList(list)) if list.value.len() == 1 => {
                Ok(Some(&list.value[0]))
            }
            _ => Err(failed_precondition!(
                "Expected exactly one main op in : {}",
                directory.display()
            )),
        }
    }

    /// The files that the graph reads.
    ///
    /// # Errors
    /// `InvalidArgument` if the collection holds something else.
    pub(crate) fn assets(&self) -> Result<Vec<AssetFileDef>> {
        if !self.def.asset_file_def.is_empty() {
            return Ok(self.def.asset_file_def.clone());
        }
        let Some(collection) = self.def.collection_def.get(ASSETS_COLLECTION) else {
            return Ok(Vec::new());
        };
        let Some(collection_def::Kind::AnyList(list)) = &collection.kind else {
            return Ok(Vec::new());
        };
        list.value.iter().map(parse_asset).collect()
    }
}

fn parse_asset(any: &proto::Any) -> Result<AssetFileDef> {
    if any.type_url.rsplit('/').next() != Some(ASSET_TYPE) {
        return Err(invalid!("Expected Any type_url for: {ASSET_TYPE}. Got: {}.", any.type_url));
    }
    proto::decode(&any.value).map_err(|_| invalid!("Failed to unpack: {ASSET_TYPE}"))
}

/// The name of a tensor that is one; empty for sparse and composite ones.
pub(crate) fn tensor_name(info: &proto::TensorInfo) -> &str {
    match &info.encoding {
        Some(tensor_info::Encoding::Name(name)) => name,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use tfcore_proto::{Any, CollectionDef, GraphDef, NodeDef, TensorInfo};

    use super::*;

    fn node_list(names: &[&str]) -> CollectionDef {
        let value = names.iter().map(|name| name.to_string()).collect();
        let kind = collection_def::Kind::NodeList(collection_def::NodeList { value });
        CollectionDef { kind: Some(kind) }
    }

    fn info(name: &str) -> TensorInfo {
        let encoding = Some(tensor_info::Encoding::Name(name.into()));
        TensorInfo { encoding, ..Default::default() }
    }

    #[test]
    fn graphs_stay_in_their_bytes() {
        let node = NodeDef { name: "a".into(), op: "NoOp".into(), ..Default::default() };
        let graph = GraphDef { node: vec![node], ..Default::default() };
        let mut def = MetaGraphDef { graph_def: Some(graph.clone()), ..Default::default() };
        def.collection_def.insert("c".into(), node_list(&["x"]));
        let bytes = def.encode_to_vec();
        let parsed = MetaGraph::parse(&bytes).unwrap();
        assert_eq!(parsed.graph_def(), graph.encode_to_vec());
        assert!(matches!(parsed.graph, Cow::Borrowed(_)));
        assert!(parsed.def().graph_def.is_none());
        assert_eq!(parsed.def().collection_def, def.collection_def);
        let twice = [&bytes[..], &bytes].concat();
        let parsed = MetaGraph::parse(&twice).unwrap();
        assert_eq!(proto::decode::<GraphDef>(parsed.graph_def()).unwrap().node.len(), 2);
        for len in 1..bytes.len() {
            // Any outcome but a panic.
            let _ = MetaGraph::parse(&bytes[..len]).map(|parsed| parsed.assets().map(|_| ()));
        }
    }

    #[test]
    fn init_ops_and_assets_are_found() {
        let directory = Path::new("d");
        let check = |def: &MetaGraphDef, expected: std::result::Result<Option<&str>, &str>| {
            let bytes = def.encode_to_vec();
            let parsed = MetaGraph::parse(&bytes).unwrap();
            let found = parsed.init_op(directory).map_err(|error| error.message().to_string());
            assert_eq!(found, expected.map_err(str::to_string));
        };
        let mut def = MetaGraphDef::default();
        check(&def, Ok(None));
        def.collection_def.insert(LEGACY_INIT_OP_COLLECTION.into(), node_list(&["legacy"]));
        check(&def, Ok(Some("legacy")));
        def.collection_def.insert(MAIN_OP_COLLECTION.into(), node_list(&["a", "b"]));
        check(&def, Err("Expected exactly one main op in : d"));
        def.collection_def.insert(MAIN_OP_COLLECTION.into(), node_list(&["main"]));
        check(&def, Ok(Some("main")));
        let mut signature = SignatureDef::default();
        def.signature_def.insert(INIT_OP_SIGNATURE.into(), signature.clone());
        check(&def, Err("Could not find output __saved_model_init_op"));
        signature.outputs.insert(INIT_OP_SIGNATURE.into(), info("init"));
        def.signature_def.insert(INIT_OP_SIGNATURE.into(), signature);
        check(&def, Ok(Some("init")));

        let asset = AssetFileDef { tensor_info: Some(info("a:0")), filename: "vocab".into() };
        let any = |type_url: &str| {
            let value = asset.encode_to_vec().into();
            let list = vec![Any { type_url: type_url.into(), value }];
            let kind = collection_def::Kind::AnyList(collection_def::AnyList { value: list });
            let mut def = MetaGraphDef::default();
            def.collection_def.insert(ASSETS_COLLECTION.into(), CollectionDef { kind: Some(kind) });
            MetaGraph::parse(&def.encode_to_vec()).unwrap().assets()
        };
        assert_eq!(
            any("type.googleapis.com/tensorflow.AssetFileDef").unwrap(),
            std::slice::from_ref(&asset)
        );
        assert!(any("type.googleapis.com/tensorflow.Other").is_err());
    }
}

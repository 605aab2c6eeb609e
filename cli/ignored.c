// SPDX-License-Identifier: Apache-2.0
// Flags of the original programs that are accepted without effect, because they concern hardware or
// a framework, or ask for what Berth always does; the help says which.
#include "cli.h"

#define SWITCH(own) CLI_ROW(OPTION_FLAG, own, NULL)
#define IGNORED .group = "without-effect", .unit = "VALUE"
#define FRAMEWORK "it belongs to the framework of the original script"

const struct option_row cli_ignored[] = {
    // Where it is a setting of the verb, it is not looked up here.
    {SWITCH("do_eval"), IGNORED, .help = "labelled data is always scored"},
    {CLI_TEXT("cache_dir", NULL), IGNORED,
     .help = "only `finetune squad` and `predict squad` keep features"},
    {SWITCH("skip_cache"), .aliases = "overwrite_cache", IGNORED,
     .help = "only `finetune squad` and `predict squad` keep features"},

    {CLI_TEXT("local_rank", NULL),
     .aliases = "hmp_bf16 hmp_fp32 hmp_opt_level num_inter_threads inter_op "
                "inter_op_parallelism_threads data_num_intra_threads data_num_inter_threads "
                "server_ip server_port DEBIAN_FRONTEND "
                "torch_compile_backend torch_compile_mode torch_empty_cache_steps torchdynamo "
                "liger_kernel_config accelerator_config parallelism_config ddp_bucket_cap_mb "
                "activation_checkpointing_kwargs gradient_checkpointing_kwargs past_index "
                "eval_accumulation_steps ray_scope length_column_name mp_parameters xpu_backend",
     IGNORED, .help = FRAMEWORK},
    {SWITCH("use_env"),
     .aliases = "deepspeed_transformer_kernel stochastic_mode hmp_verbose use_habana use_lazy_mode "
                "use_hpu_graphs cuda_graphs disable_jit_fusions use_torch_compile "
                "compiled_autograd no_compiled_autograd torch_compile use_liger_kernel "
                "disable_v2_bevior new_bf16_scope "
                "remove_unused_columns use_cache use_ipex use_mps_device jit_mode_eval "
                "ddp_find_unused_parameters ddp_broadcast_buffers ddp_static_graph "
                "eval_do_concat_batches eval_use_gather_object batch_eval_metrics "
                "include_inputs_for_metrics save_on_each_node log_on_each_node "
                "restore_callback_states_from_checkpoint low_cpu_mem_usage split_batches "
                "dispatch_batches use_legacy_prediction_loop",
     IGNORED, .help = FRAMEWORK},
    {CLI_TEXT("debug", NULL), .alone = "true", IGNORED, .help = FRAMEWORK},
    {CLI_TEXT("fsdp", NULL),
     .aliases = "fsdp_config fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap "
                "sharded_ddp",
     .alone = "true", IGNORED, .help = "--zero_stage says what processes divide among them"},
    {CLI_LIST("include_for_metrics"), IGNORED, .help = FRAMEWORK},
    {CLI_LIST("label_names"), IGNORED, .help = "--label_column names the column"},
    {CLI_TEXT("tpu_name", NULL),
     .aliases = "tpu_zone gcp_project master num_tpu_cores iterations_per_loop tpu_num_cores",
     IGNORED, .help = "there is no TPU"},
    {SWITCH("use_tpu"), .aliases = "tpu_metrics_debug", IGNORED, .help = "there is no TPU"},
    {CLI_TEXT("num_workers", NULL),
     .aliases = "dataloader_num_workers dataloader_prefetch_factor "
                "dataloader_multiprocessing_context",
     IGNORED, .help = "a thread reads the data beside the updates"},
    {CLI_TEXT("preprocessing_num_workers", NULL), IGNORED,
     .help = "all threads tokenize; --threads says how many"},
    {SWITCH("dataloader_pin_memory"),
     .aliases = "dataloader_persistent_workers dataloader_in_order streaming", IGNORED,
     .help = "a thread reads the data beside the updates"},
    {CLI_TEXT("ddp_backend", NULL), IGNORED, .help = "--comm decides"},
    {CLI_TEXT("fp16_opt_level", NULL), .aliases = "fp16_backend half_precision_backend", IGNORED,
     .help = "--precision decides"},
    {SWITCH("bf16_full_eval"), .aliases = "fp16_full_eval", IGNORED,
     .help = "--precision is that of evaluations, too"},
    {SWITCH("no_dense_sequence_output"), IGNORED,
     .help = "the last layer computes only the rows that the head reads"},
    {SWITCH("resume_phase2"), IGNORED, .help = "a checkpoint says of which phase it is"},
    {CLI_TEXT("profile_start", NULL), IGNORED,
     .help = "its program does not read it; --profile A:B says which updates"},
    {SWITCH("log_memory_usage"), .aliases = "skip_memory_metrics", IGNORED,
     .help = "the plan shows the memory, and the summary its peak"},
    {SWITCH("auto_find_batch_size"), IGNORED,
     .help = "a plan that exceeds the memory is refused with the batch size that fits"},
    {SWITCH("average_tokens_across_devices"), IGNORED,
     .help = "the loss of an update is that of all processes"},
    {SWITCH("prediction_loss_only"), IGNORED,
     .help = "evaluations are made as eval_strategy says, with all scores"},
    {SWITCH("save_only_model"), IGNORED,
     .help = "a checkpoint has the moments, so that a run can resume"},
    {SWITCH("save_safetensors"), IGNORED,
     .help = "weights are always safetensors; --save_format adds other formats"},
    {SWITCH("enable_jit_checkpoint"), IGNORED, .help = "a run that is stopped saves itself"},
    {CLI_TEXT("data_seed", NULL), IGNORED, .help = "--seed decides the order of the data, too"},
    {SWITCH("ignore_mismatched_sizes"), IGNORED,
     .help = "a head that does not fit is newly initialised"},
    {SWITCH("return_entity_level_metrics"), IGNORED, .help = "scores are of all entities together"},
    {SWITCH("use_fast_tokenizer"), IGNORED, .help = "there is one tokenizer"},
    {CLI_TEXT("dataset_config_name", NULL), IGNORED, .help = "--dataset_name decides"},
    {CLI_TEXT("token", NULL), .aliases = "use_auth_token hub_token", .alone = "true", IGNORED,
     .help = "only `berth fetch` asks the hub"},
    {CLI_TEXT("log_level", NULL), .aliases = "log_level_replica", IGNORED,
     .help = "--quiet and --log_format decide what is logged"},
    {SWITCH("logging_nan_inf_filter"), IGNORED, .help = "a loss is reported as it is"},
    {CLI_TEXT("include_num_input_tokens_seen", NULL), .aliases = "include_tokens_per_second",
     .alone = "true", IGNORED, .help = "tokens_per_second is always reported"},
    {CLI_TEXT("run_name", NULL),
     .aliases = "project trackio_space_id trackio_bucket_id trackio_static_space_id", IGNORED,
     .help = "--logging_dir and --json_summary write records to files"},
    {SWITCH("use_fused_adam"), IGNORED, .help = "every optimizer is fused"},
    {SWITCH("verbose_logging"), .aliases = "verbose", IGNORED,
     .help = "--json_summary FILE logs everything"},
    {SWITCH("profile"), IGNORED, .help = "only training records a profile"},
    {CLI_TEXT("profile_steps", NULL), IGNORED, .help = "only training records a profile"},
    {CLI_TEXT("ckpt_type", NULL), IGNORED, .help = "the type is read from the checkpoint's files"},
    {SWITCH("attention_dropout_checkpoint"), .aliases = "gelu_checkpoint normalize_invertible",
     IGNORED, .help = "--gradient_checkpointing saves memory"},
    {SWITCH("deepspeed_sparse_attention"), IGNORED, .help = "attention is dense"},
    {SWITCH("progressive_layer_drop"), IGNORED, .help = "every layer is always computed"},
    {CLI_LIST("ckpt_to_save"), IGNORED, .help = "--save_steps N says how often to save"},
    {CLI_TEXT("refresh_bucket_size", NULL), IGNORED,
     .help = "gradients are exchanged every update"},
    {SWITCH("use_pretrain"), .aliases = "finetune", IGNORED,
     .help = "--model names weights to start from"},
    {SWITCH("pad_to_max_length"), .aliases = "group_by_length", IGNORED,
     .help = "Berth does not pad"},
    {SWITCH("optimized_softmax"), IGNORED, .help = "every kernel is optimized"},
    {SWITCH("experimental_gelu"), IGNORED, .help = "hidden_act of config.json determines it"},
    {SWITCH("allreduce_post_accumulation"), .aliases = "allreduce_post_accumulation_fp16", IGNORED,
     .help = "processes exchange gradients once an update, after accumulation"},
    {CLI_TEXT("throughput_warmup_steps", NULL), IGNORED,
     .help = "samples_per_second is of all updates"},
    {CLI_TEXT("eval_script", NULL), IGNORED, .help = "the official metrics are built in"},
    {SWITCH("trust_remote_code"), IGNORED, .help = "no code is ever loaded"},
    {SWITCH("full_determinism"), IGNORED, .help = "every run is deterministic"},
    {SWITCH("push_to_hub"), .aliases = "hub_private_repo hub_always_push", IGNORED,
     .help = "nothing is uploaded"},
    {CLI_TEXT("hub_model_id", NULL),
     .aliases = "hub_strategy hub_revision push_to_hub_model_id push_to_hub_organization "
                "push_to_hub_token",
     IGNORED, .help = "nothing is uploaded"},
    {SWITCH("enable_packed_data_mode"), IGNORED, .help = "packed shards are recognized"},
    {SWITCH("use_nvidia_dataset"), IGNORED, .help = "the layout of shards is recognized"},
    {CLI_TEXT("framework", NULL), IGNORED, .help = "Berth computes by itself"},
    {SWITCH("benchmark_only"), .aliases = "accuracy_only", IGNORED,
     .help = "speed and scores are always reported"},
    {SWITCH("output_results"), IGNORED, .help = "predictions are always written"},
    {SWITCH("disable_tcmalloc"), IGNORED, .help = "no other allocator is loaded"},
    {CLI_TEXT("docker_image", NULL), .aliases = "volume", IGNORED,
     .help = "Berth runs where it is started: `docker run ... berth ...` is a container"},
};
const size_t cli_ignored_count = sizeof cli_ignored / sizeof *cli_ignored;

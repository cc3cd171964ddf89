import io.kroxylicious.proxy.KafkaProxy;
import io.kroxylicious.proxy.config.ConfigParser;
import io.kroxylicious.proxy.internal.config.Features;

/** Kroxylicious between UPSTREAM and LISTEN, with the filters whose types are named: `Proxy UPSTREAM LISTEN [TYPE]...`. */
public final class Proxy {
    /** One key for all topics. */
    private static final String ENCRYPTION = """
                config:
                  kms: UnitTestingKmsService
                  kmsConfig:
                    numIvBytes: 12
                    numAuthBits: 128
                    existingKeks:
                      - uuid: 00000000-0000-0000-0000-000000000001
                        key: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=
                        algorithm: AES
                        alias: every-topic
                  selector: TemplateKekSelector
                  selectorConfig:
                    template: every-topic
            """;

    private Proxy() {
    }

    public static void main(String[] arguments) throws Exception {
        ConfigParser parser = new ConfigParser();
        String configuration = configuration(arguments);
        try (KafkaProxy proxy = new KafkaProxy(parser, parser.parseConfiguration(configuration), Features.defaultFeatures())) {
            proxy.startup();
            proxy.block();
        }
    }

    private static String configuration(String[] arguments) {
        StringBuilder filters = new StringBuilder();
        StringBuilder names = new StringBuilder();
        for (int i = 2; i < arguments.length; i++) {
            String type = arguments[i];
            names.append(i == 2 ? "defaultFilters:\n" : "").append("  - filter-").append(i).append('\n');
            filters.append(i == 2 ? "filterDefinitions:\n" : "");
            filters.append("  - name: filter-").append(i).append("\n    type: ").append(type).append('\n');
            if (type.endsWith("Transformation")) {
                filters.append("    config:\n      transformation: UpperCasing\n");
                filters.append("      transformationConfig:\n        charset: ISO-8859-1\n");
            }
            if (type.equals("RecordEncryption")) {
                filters.append(ENCRYPTION);
            }
        }
        return """
                virtualClusters:
                  - name: certified
                    targetCluster:
                      bootstrapServers: %s
                    gateways:
                      - name: plain
                        portIdentifiesNode:
                          bootstrapAddress: %s
                """.formatted(arguments[0], arguments[1]) + filters + names;
    }
}

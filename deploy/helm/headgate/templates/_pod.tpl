{{- define "headgate.pod" -}}
metadata:
  labels:
    {{- include "headgate.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # a change of the configuration replaces the pods one after another
    checksum/config: {{ list .Values.config .Values.env | toYaml | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "headgate.account" . }}
  automountServiceAccountToken: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  # server.drainDelay and server.grace, and a margin
  terminationGracePeriodSeconds: {{ include "headgate.stopSeconds" . }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 1000
    runAsGroup: 1000
    fsGroup: 1000
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: headgate
      image: {{ include "headgate.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve, --config, /etc/headgate/headgate.yaml, --from-env]
      env:
        # whatever else says so: where probes ask and the Service leads
        - name: PORT
          value: {{ include "headgate.port" . | quote }}
        - name: HEADGATE_ADMIN
          value: {{ ternary "0.0.0.0" "127.0.0.1" .Values.admin.exposed }}:{{ .Values.admin.port }}
        {{- if and .Values.admin.exposed (not .Values.admin.tokenSecret.name) }}
        {{- fail "admin.exposed wants a token: set admin.tokenSecret.name" }}
        {{- end }}
        {{- with .Values.admin.tokenSecret }}
        {{- if .name }}
        - name: HEADGATE_ADMIN_TOKEN
          valueFrom:
            secretKeyRef:
              name: {{ .name }}
              key: {{ .key }}
        {{- end }}
        {{- end }}
      {{- if or .Values.envFrom .Values.env }}
      envFrom:
        {{- with .Values.envFrom }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- if .Values.env }}
        # the last goes before the others
        - secretRef:
            name: {{ include "headgate.name" . }}-env
        {{- end }}
      {{- end }}
      ports:
        - name: clients
          containerPort: {{ include "headgate.port" . }}
        - name: admin
          containerPort: {{ .Values.admin.port }}
      {{- $server := .Values.config.server | default dict }}
      {{- $certificates := eq (dig "clientVerification" "" ($server.tls | default dict)) "require" }}
      {{- if $certificates }}
      {{- if and (.Values.config.admin | default dict).token (not .Values.admin.tokenSecret.name) }}
      {{- fail "clientVerification: require has the admin port asked for health: set admin.tokenSecret.name, and no config.admin.token" }}
      {{- end }}
      # the kubelet has no certificate to show: the admin port is asked, from within
      {{- else }}
      # the clients' port has the health pages as well: the admin port may be on loopback, or want a token
      {{- end }}
      startupProbe:
        {{- include "headgate.probe" (list . $certificates "/health/live") | nindent 8 }}
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: 30
      livenessProbe:
        {{- include "headgate.probe" (list . $certificates "/health/live") | nindent 8 }}
        periodSeconds: {{ ternary 30 10 $certificates }}
        timeoutSeconds: 5
        failureThreshold: {{ ternary 3 6 $certificates }}
      readinessProbe:
        {{- include "headgate.probe" (list . $certificates "/health/ready") | nindent 8 }}
        periodSeconds: {{ ternary 10 2 $certificates }}
        timeoutSeconds: {{ ternary 5 2 $certificates }}
        failureThreshold: 1
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        - name: config
          mountPath: /etc/headgate
          readOnly: true
        - name: data
          mountPath: /var/lib/headgate
        {{- with .Values.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      secret:
        secretName: {{ .Values.existingSecret | default (include "headgate.name" .) }}
        # 0440
        defaultMode: 288
    {{- if not .Values.persistence.enabled }}
    - name: data
      emptyDir:
        sizeLimit: {{ .Values.persistence.size }}
    {{- end }}
    {{- with .Values.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  topologySpreadConstraints:
    {{- if .Values.topologySpreadConstraints }}
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "headgate.selector" $ | nindent 10 }}
    {{- end }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "headgate.probe" -}}
{{- $root := index . 0 -}}
{{- if index . 1 -}}
exec:
  command: [node, /usr/lib/headgate/dist/cli/health.js, 'http://127.0.0.1:{{ $root.Values.admin.port }}{{ index . 2 }}']
{{- else -}}
httpGet:
  path: {{ index . 2 }}
  port: clients
  scheme: {{ include "headgate.scheme" $root }}
{{- end -}}
{{- end -}}
